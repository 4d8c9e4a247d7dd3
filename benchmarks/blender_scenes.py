"""How the shipped model reads scenes made with Blender: `python benchmarks/blender_scenes.py FOLDER OUT.json`.

`FOLDER` is in CLEVR's layout; its split `val` is read. None of its images were trained on.
"""

import json
import sys
from pathlib import Path

import torch

from setpred.data.clevr import CLEVR, CLEVR_SCHEMA
from setpred.metrics import SetAveragePrecision
from setpred.play import pretrained

BATCH = 50


def judge(folder: Path) -> dict[str, float]:
    scenes, model, metric = (
        CLEVR(folder, "val", size=(192, 128)),
        pretrained("scenes"),
        SetAveragePrecision(CLEVR_SCHEMA),
    )
    counted = 0
    with torch.no_grad():
        for start in range(0, len(scenes), BATCH):
            chosen = range(start, min(start + BATCH, len(scenes)))
            found, there = (
                model(torch.stack([scenes.image(i) for i in chosen])),
                scenes.mask[chosen.start : chosen.stop],
            )
            metric.update(found, scenes.sets[chosen.start : chosen.stop])
            counted += int(((found[..., -1] >= 0.5).sum(1) == there.sum(1)).sum())
    values = {name: round(float(value), 4) for name, value in metric.compute().items()}
    return {"scenes": len(scenes), **values, "counted": round(counted / len(scenes), 4)}


if __name__ == "__main__":
    found = judge(Path(sys.argv[1]))
    Path(sys.argv[2]).write_text(json.dumps(found, indent=2) + "\n")
    print(found)

"""Make the playground's model of scenes out of a trained run: `python benchmarks/ship_scenes.py RUN`.

The weights are calibrated on the first training scenes, rounded to half precision, and tested as they will be used: on
2,000 rendered scenes that were not trained on. What came out is written beside them, as `trained.json`.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from setpred.data.clevr import CLEVR_SCHEMA
from setpred.data.scene_cache import RENDERED, SceneSplit
from setpred.image_reader import ImageReader
from setpred.metrics import SetAveragePrecision
from setpred.play.zoo import FOLDER
from setpred.predictor import SetPredictor
from setpred.tasks.clevr_objects import ClevrSettings
from setpred.tasks.experiment import MEASURED
from setpred.training.run_folder import read_config, read_result

BATCH = 100
TESTED = 2_000


def ship(run: Path) -> Path:
    settings, result = read_config(run), read_result(run)
    assert isinstance(settings, ClevrSettings)
    prefix = "predictor.encoder."
    weights = {
        k.removeprefix(prefix): v for k, v in load_file(run / "model.safetensors").items() if k.startswith(prefix)
    }
    data = settings.data
    frame = SceneSplit(RENDERED, "val", TESTED, data.size, data.stretched).frame
    reader = ImageReader(CLEVR_SCHEMA, settings.net.width, canvas=frame)
    reader.load_state_dict(weights, strict=False)
    predictor = SetPredictor(reader, None, CLEVR_SCHEMA).eval()

    def batches(split: str, count: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        scenes = SceneSplit(RENDERED, split, count, data.size, data.stretched)
        images, sets = scenes.images(), scenes.sets()
        for start in range(0, count, BATCH):
            chosen = slice(start, start + BATCH)
            yield predictor.prepared(images[chosen]), sets[chosen], sets[chosen][..., -1] > 0

    reader.calibrate(batches("train", MEASURED))
    predictor = predictor.half().float()
    metric, counted = SetAveragePrecision(CLEVR_SCHEMA), 0
    with torch.no_grad():
        for images, sets, mask in batches("val", TESTED):
            found = predictor(images)
            metric.update(found, sets)
            counted += int(((found[..., -1] >= 0.5).sum(1) == mask.sum(1)).sum())
    metrics = {name: round(float(value), 4) for name, value in metric.compute().items()}
    folder = predictor.half().save_pretrained(FOLDER / "scenes")
    kept = {key: result[key] for key in ("task", "model", "seed", "steps", "seconds", "commit")}
    facts = {**kept, "tested": TESTED, "metrics": {**metrics, "counted": round(counted / TESTED, 4)}}
    (folder / "trained.json").write_text(json.dumps(facts, indent=2) + "\n")
    return folder


if __name__ == "__main__":
    print(ship(Path(sys.argv[1])))

"""Every reader of files, with a small real example of what it reads."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import setpred as sp
from setpred.data.clevr import CLEVR
from setpred.data.importers import from_coco, from_csv
from setpred.data.inputs import read_image
from setpred.data.inspection import inspect
from setpred.data.jsonl_folder import open_folder
from setpred.prediction import Model, inputs_of, predict
from setpred.report.runs import read_run
from setpred.tasks import make_experiment, make_settings
from setpred.tasks.settings import Settings
from setpred.training.run_folder import load_run, read_result, summary, write_config


@dataclass
class Reader:
    """`write` makes a sound example in a folder, `files` of it are damaged, `read` reads it."""

    write: Callable[[Path], None]
    files: tuple[str, ...]
    read: Callable[[Path], object]


def write_image(path: Path, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    Image.fromarray(pixels).convert(mode).save(path)


def write_clevr(folder: Path) -> None:
    thing = {"color": "red", "shape": "cube", "size": "small", "material": "metal", "3d_coords": [1.0, -2.0, 0.35]}
    scenes = []
    for i in range(2):
        name = f"CLEVR_train_{i:06d}.png"
        write_image(folder / "images" / "train" / name)
        scenes.append({"image_index": i, "image_filename": name, "objects": [thing] * (i + 1)})
    listing = folder / "scenes" / "CLEVR_train_scenes.json"
    listing.parent.mkdir()
    listing.write_text(json.dumps({"info": {"split": "train"}, "scenes": scenes}))


def read_clevr(folder: Path) -> None:
    data = CLEVR(folder, "train", size=16)
    for i in range(min(len(data), 3)):
        data[i]


LINES = [
    {"id": 1, "image": "img/a.png", "objects": [{"at": [0.5, 1.0], "kind": "cat", "age": 3, "tame": True}]},
    {"id": 2, "image": "img/b.png", "objects": []},
    {"id": 3, "image": "img/a.png", "objects": [{"at": [2.5, -1.0], "kind": "dog", "age": 1, "tame": False}] * 2},
]
SCHEMA = """\
size: 3
presence: true
position: at
fields:
  at: {type: real, dim: 2, range: [-10, 10], weight: 0.5}
  kind: {type: category, names: [cat, dog]}
  age: {type: count, max: 20}
  tame: {type: flag}
"""


def write_lines(folder: Path) -> None:
    write_image(folder / "img" / "a.png")
    write_image(folder / "img" / "b.png")
    text = "".join(json.dumps(line) + "\n" for line in LINES)
    (folder / "train.jsonl").write_text(text)
    (folder / "val.jsonl").write_text(text.replace('"id": ', '"id": 1'))


def write_folder(folder: Path) -> None:
    write_lines(folder)
    (folder / "schema.yaml").write_text(SCHEMA)


def read_folder(folder: Path) -> None:
    inspect(folder)
    found = open_folder(folder)
    for split in (found.train, found.val):
        for i in range(min(len(split), 4)):
            split[i]


def write_sets(folder: Path) -> None:
    lines = [{"set": [[1.0, 2.0], [3.0, i]], "objects": [{"heading": 10.0 * i, "kind": i % 2}]} for i in range(4)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "train.jsonl").write_text(text)
    (folder / "val.jsonl").write_text(text)


def write_coco(folder: Path) -> None:
    for name in "ab":
        write_image(folder / "images" / f"{name}.png")
    images = [{"id": i, "file_name": f"{name}.png", "width": 8, "height": 8} for i, name in enumerate("ab")]
    annotations = [
        {"id": i, "image_id": i % 2, "category_id": 1 + i % 2, "bbox": [1, 1, 4.5, 3], "iscrowd": 0} for i in range(3)
    ]
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(content))


def write_csv(folder: Path) -> None:
    rows = ["id,u,v,at.x,at.y,kind", "a,1,2.5,0.5,1,cat", "a,1,2.5,0.25,2,dog", "b,-1,0,1e3,3,cat", "c,4,5,,,"]
    (folder / "table.csv").write_text("\n".join(rows) + "\n")


def tiny_predictor() -> sp.SetPredictor:
    torch.manual_seed(0)
    schema = sp.Schema({"at": sp.Real(2, range=(0, 10)), "kind": sp.Category("cat", "dog")}, size=3)
    inner = sp.SetEncoder(schema.dim, hidden=8, latent=8, size=schema.size)
    decoder = sp.iDSPN(inner, size=3, dim=schema.dim, solver=sp.Nesterov(steps=3, clip=10.0), init=sp.LearnedInit())
    return sp.SetPredictor(sp.VectorEncoder(dim=2, hidden=8, latent=8), decoder, schema)


def write_requests(folder: Path) -> None:
    lines = [{"id": i, "vector": [1.0 * i, -0.5]} for i in range(3)]
    (folder / "inputs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def read_requests(folder: Path) -> None:
    predictor = tiny_predictor().eval()
    predict(Model(predictor, inputs_of(predictor.encoder, 64)), [str(folder / "inputs.jsonl")], lambda line: None)


def tiny_settings(folder: Path) -> Settings:
    changes = {"net.hidden": 8, "net.latent": 8, "optim.steps": 4, "trainer.round": 2, "optim.batch": 2}
    return make_settings(str(folder), preset="quick", overrides=changes)


def write_run(folder: Path) -> None:
    from safetensors.torch import save_file

    write_sets(folder)
    settings, out = tiny_settings(folder), folder / "run"
    write_config(settings, out)
    experiment = make_experiment(settings)
    save_file(experiment.state_dict(), out / "model.safetensors")
    (out / "metrics.csv").write_text("step,seconds,lr,train/loss\n2,0.1,0.001,0.5\n4,0.2,0.001,0.25\n")
    (out / "result.json").write_text(json.dumps(summary(settings, 4, 0.2, {"test/loss": 0.25})))


def read_whole_run(folder: Path) -> None:
    load_run(folder / "run")
    run = read_run(folder / "run")
    run.metric("loss")
    read_result(folder / "run")


def upload(folder: Path) -> None:
    from setpred.play.scenes_tab import read_upload

    read_upload((folder / "a.jpg").read_bytes())
    read_upload((folder / "a.png").read_bytes())


def write_images(folder: Path) -> None:
    for suffix, mode in (("png", "RGBA"), ("jpg", "RGB"), ("gif", "P"), ("bmp", "RGB"), ("webp", "RGB")):
        write_image(folder / f"a.{suffix}", mode)


def read_images(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        read_image(path, 16)


READERS = {
    "CLEVR": Reader(write_clevr, ("scenes/CLEVR_train_scenes.json",), read_clevr),
    "JSON lines": Reader(write_lines, ("train.jsonl",), read_folder),
    "JSON lines of sets": Reader(write_sets, ("train.jsonl", "val.jsonl"), read_folder),
    "schema": Reader(write_folder, ("schema.yaml",), read_folder),
    "COCO": Reader(
        write_coco, ("instances.json",), lambda f: from_coco(f / "instances.json", f / "images", f / "out", val=0.5)
    ),
    "CSV": Reader(
        write_csv, ("table.csv",), lambda f: from_csv(f / "table.csv", f / "out", inputs=("u", "v"), val=0.5)
    ),
    "inputs of predict": Reader(write_requests, ("inputs.jsonl",), read_requests),
    "run folder": Reader(
        write_run, ("run/config.yaml", "run/config.yaml", "run/result.json", "run/metrics.csv"), read_whole_run
    ),
    "safetensors of a run": Reader(write_run, ("run/model.safetensors",), read_whole_run),
    "saved model": Reader(
        lambda f: tiny_predictor().save_pretrained(f / "saved") and None,
        ("saved/config.json", "saved/config.json", "saved/model.safetensors"),
        lambda f: sp.SetPredictor.from_pretrained(f / "saved"),
    ),
    "images": Reader(write_images, ("a.png", "a.jpg", "a.gif", "a.bmp", "a.webp"), read_images),
    "uploads": Reader(write_images, ("a.png", "a.jpg"), upload),
}

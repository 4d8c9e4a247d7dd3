"""A run of one's own: its model on the examples it was tested with."""

import math
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from PIL import Image
from torch import Tensor

from ..errors import UsageError
from ..matching import COSTS, assign
from ..report.evidence import wrong_numbers
from ..schema import Schema
from ..training.autoencoding import Autoencoding
from ..training.clevr import Clevr
from ..training.numbering import Numbering
from ..training.own import OwnFolder
from ..training.run_folder import load_run, read_config, read_result
from ..training.scene_cache import RENDERED, SceneSplit
from ..training.tasks import find_task
from .plain import numbers
from .points import followed
from .scenes import camera, data_address, scene_state
from .snippets import run_code

EXAMPLES = 50


class ShownRun:
    """A finished run, loaded once and only read from then on."""

    def __init__(self, path: Path):
        self.path, self.result = path, read_result(path)
        self.changes = {"data.test": min(EXAMPLES, read_config(path).data.test)}
        self.settings, self.experiment = load_run(path, self.changes)
        self.batch = self.experiment.split("test")

    def about(self) -> dict[str, Any]:
        solver = self.settings.solver
        metrics = {k: v for k, v in self.result["metrics"].items() if v is not None and math.isfinite(v)}
        return {
            "name": self.path.name,
            "task": self.settings.task,
            "model": self.settings.model,
            "metrics": {name: float(f"{value:.3g}") for name, value in metrics.items()},
            "examples": len(self.batch[0]),
            "steps": solver.eval_steps or solver.steps,
        }

    @torch.no_grad()
    def example(self, index: int, steps: int) -> dict[str, Any]:
        """One test example as the page shows it; `kind` says how."""
        if not 0 <= index < len(self.batch[0]):
            raise UsageError(f"there is no example {index}: this run shows 0 to {len(self.batch[0]) - 1}")
        one = tuple(part[index : index + 1] for part in self.batch)
        experiment = self.experiment
        if isinstance(experiment, Autoencoding):
            state = _points(experiment, one, steps)
        elif isinstance(experiment, Numbering):
            state = _numbering(experiment, one, steps)
        elif isinstance(experiment, Clevr):
            state = _scene(experiment, one, index, steps)
        else:
            assert isinstance(experiment, OwnFolder)
            state = _objects(experiment, one, steps)
        iterates = find_task(self.settings.task).iterates(self.settings.model)
        changes = self.changes | ({"solver.eval_steps": steps} if iterates else {})
        return {**state, "code": run_code(self.path, changes, index)}


def _points(experiment: Autoencoding, batch: tuple[Tensor, ...], steps: int) -> dict[str, Any]:
    sets, *masks = batch
    target = sets[0][masks[0][0]] if masks else sets[0]
    way = experiment.way(batch, steps)
    assert way is not None
    shown = followed(way, target)

    def plane(rows: list[list[float]]) -> list[list[float]]:
        return [[*row, 0.0][:2] for row in rows]

    return {
        "kind": "points",
        "target": plane(numbers(target)),
        "dim": target.shape[1],
        **shown,
        "frames": [plane(frame) for frame in shown["frames"]],
    }


def _numbering(experiment: Numbering, batch: tuple[Tensor, ...], steps: int) -> dict[str, Any]:
    """The number that each element gets at every iteration, and whether it is a wrong one."""
    inputs, _ = batch
    way = experiment.way(batch, steps)
    chosen = (experiment(inputs) if way is None else way.sets[:, 0]).argmax(dim=-1)
    classes = inputs[0].argmax(dim=-1)
    return {
        "kind": "numbering",
        "classes": classes.tolist(),
        "numbers": chosen.tolist(),
        "wrong": [wrong_numbers(classes, row).tolist() for row in chosen],
    }


def _scene(experiment: Clevr, batch: tuple[Tensor, ...], index: int, steps: int) -> dict[str, Any]:
    inputs, target = batch
    data = experiment.settings.data
    position: ArrayLike = camera.POSITION
    if data.source == RENDERED:
        position = SceneSplit(RENDERED, "val", data.test, data.size).rendered().scene(index).camera
    image = data_address(_picture(inputs[0])) if data.images else None
    return {"kind": "scene", **scene_state(experiment.predictor, inputs, steps, target[0], position), "image": image}


def _objects(experiment: OwnFolder, batch: tuple[Tensor, ...], steps: int) -> dict[str, Any]:
    """The objects at every iteration, each with the true one that it is matched with."""
    inputs, target, mask = batch
    schema, way = experiment.schema, experiment.way(batch, steps)
    assert way is not None
    sets = way.sets[:, 0].nan_to_num(0.0, 1e3, -1e3).clamp(-1e3, 1e3)
    pairs = assign(COSTS["huber"](sets[:, :, None], target)).target
    image = experiment.settings.data.kind == "image"
    return {
        "kind": "objects",
        "fields": list(schema.fields),
        "truth": [schema.decode(element[None], threshold=-1e4)[0] for element in target[0]],
        "there": mask[0].tolist(),
        "iterates": [schema.decode(elements, threshold=-1e4) for elements in sets],
        "presence": numbers(schema.confidence(sets), 3),
        "pairs": pairs.tolist(),
        "right": _right(schema, sets, target, pairs, experiment.settings.data.tolerance),
        "image": data_address(_picture(inputs[0])) if image else None,
        "input": None if image else numbers(inputs[0]),
    }


def _right(schema: Schema, sets: Tensor, target: Tensor, pairs: Tensor, tolerance: float) -> list[Any]:
    """Which fields of each element agree with its match: `[iterates, size, fields]`."""
    matched = torch.take_along_dim(target.expand_as(sets), pairs[..., None], dim=1)
    return (schema.closeness(sets, matched, tolerance) >= 0.5).tolist()


def _picture(image: Tensor) -> Image.Image:
    pixels = image if image.dtype == torch.uint8 else (255 * image).round().clamp(0, 255).byte()
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())

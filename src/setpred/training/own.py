"""Objects from a folder of one's own: images, vectors or sets in, what its schema describes out."""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..agreement import agreement
from ..average_precision import SetAveragePrecision
from ..data.folder import Folder, open_folder
from ..encoders import SetEncoder, VectorEncoder
from ..errors import UsageError, asked
from ..image_encoder import ImageEncoder
from ..matching import hungarian_loss
from ..predictor import SetPredictor
from ..schema import Real, Schema
from ..solution import Trace
from ..standardized import Standardized
from .experiment import Batch, decoding_loss
from .folder_tensors import read_tensors
from .parts import make_decoder
from .predicting import Predicting
from .settings import ImageModelSettings, ImageOptimSettings, Settings, SolverSettings

DISTANCES = (0.5, 0.2, 0.1, 0.05)
"""At which average precision is measured, in the scale of the position."""


@dataclass
class FolderData:
    """What was found in the folder, so that a trained run can predict without it.

    `schema` is JSON. `size` is in pixels a side, or the largest input set. The first `train` examples of train.jsonl
    are learned from, the first `test` of val.jsonl judge. Numbers and angles are right within `tolerance` of their
    scale.
    """

    folder: str = ""
    schema: str = ""
    kind: str = "vector"
    dim: int = 1
    size: int = 1
    train: int = 1
    test: int = 1
    tolerance: float = 0.1


@dataclass
class FolderSettings(Settings):
    task: str = "folder"
    solver: SolverSettings = field(default_factory=lambda: SolverSettings(steps=20, clip=10.0))
    net: ImageModelSettings = field(default_factory=lambda: ImageModelSettings(constraint="usual"))
    optim: ImageOptimSettings = field(default_factory=lambda: ImageOptimSettings(schedule="cosine"))
    data: FolderData = field(default_factory=FolderData)


MODELS: dict[str, dict[str, Any]] = {
    "idspn": {},
    "dspn": {"solver.name": "gradient-descent", "solver.clip": None, "adjoint.name": "unrolled"},
    "idspn-sum": {"net.pool": "sum"},
    "idspn-mean": {"net.pool": "mean"},
    "idspn-relation": {"net.relation": True},
}


def small(data: FolderData) -> dict[str, Any]:
    """Widths by the size of an output, steps by the number of examples."""
    images, schema = data.kind == "image", read_schema(data)
    width = 256 if schema.size * schema.dim <= 100 else 512
    batch = min(32 if images else 128, max(8, data.train // 10))
    epoch = max(1, data.train // batch)
    longest = (5_000 if data.size <= 64 else 2_500) if images else 20_000
    steps = min(max(100 * epoch, 5_000), longest)
    return {
        "net.hidden": width,
        "net.latent": width,
        "optim.batch": batch,
        "optim.steps": steps,
        "trainer.round": steps // 20,
    }


def quick(data: FolderData) -> dict[str, Any]:
    """A first look: whether anything is learned at all."""
    steps = 300 if data.kind == "image" else 1_000
    narrow = {"net.hidden": 128, "net.latent": 128, "net.width": 32}
    return small(data) | narrow | {"solver.steps": 10, "optim.steps": steps, "trainer.round": steps // 10}


PRESETS = {"small": small, "quick": quick}


def describe(folder: Path, size: int | None = None) -> dict[str, Any]:
    """The settings that say what is in a folder, every line of which is checked."""
    found = opened(folder, size, None)
    return {
        "data.folder": str(folder.resolve()),
        "data.schema": json.dumps(found.schema.to_dict(), ensure_ascii=False),
        "data.kind": found.inputs.kind,
        "data.dim": found.inputs.dim,
        "data.size": found.inputs.size,
        "data.train": len(found.train),
        "data.test": len(found.val),
    }


def summary(settings: Settings) -> str:
    """What was found and what was chosen, in a few lines for a person."""
    data, net, schema = settings.data, settings.net, read_schema(settings.data)
    inputs = {
        "image": f"images, read as {data.size}×{data.size} pixels",
        "vector": f"vectors of {data.dim} numbers",
        "set": f"sets of up to {data.size} elements of {data.dim} numbers",
    }
    fields = ", ".join([*schema.fields, *(["presence"] if schema.presence else [])])
    return (
        f"{data.folder}: {data.train:,} examples to train on, {data.test:,} to judge; {inputs[data.kind]}\n"
        f"objects: {'up to ' if schema.presence else ''}{schema.size} of {schema.dim} numbers ({fields})\n"
        f"{settings.model}: hidden {net.hidden}, latent {net.latent}, {settings.solver.steps} iterations; "
        f"{settings.optim.steps:,} steps of {settings.optim.batch} examples, judged every {settings.trainer.round}"
    )


def opened(folder: Path, size: int | None, schema: str | None) -> Folder:
    """The folder, read again only if its files have changed."""
    files = [folder / name for name in ("train.jsonl", "val.jsonl", "schema.yaml")]
    states = [path.stat() for path in files if path.exists()]
    with asked():
        return _opened(folder, size, schema, tuple((state.st_size, state.st_mtime_ns) for state in states))


@lru_cache(maxsize=4)
def _opened(folder: Path, size: int | None, schema: str | None, stamp: tuple[tuple[int, int], ...]) -> Folder:
    return open_folder(folder, size, None if schema is None else Schema.from_dict(json.loads(schema)))


def read_schema(data: FolderData) -> Schema:
    """The schema in the settings of a run."""
    if not data.schema:
        raise UsageError("folder is no task by itself: name the folder, as in setpred train my_data")
    try:
        return Schema.from_dict(json.loads(data.schema))
    except ValueError as error:
        raise UsageError(f"data.schema: {error}") from None


class OwnFolder(Predicting):
    """Predict the objects of an input; judged by their loss and by how many fields and whole sets are right."""

    monitor = "score"

    def __init__(self, settings: FolderSettings):
        super().__init__()
        self.settings = settings
        data, net = settings.data, settings.net
        if not data.tolerance > 0:
            raise UsageError(f"data.tolerance is {data.tolerance}: use a number above 0")
        schema = self.schema = read_schema(data)
        encoder = make_input_encoder(data, net)
        decoder = make_decoder(settings, schema.size, schema.dim, schema=schema)
        self.predictor = SetPredictor(encoder, decoder, schema)
        # With all shares at 1 the two are the same, and the named one is compiled.
        self.cost = "huber" if all(field.share == 1 for field in schema.fields.values()) else schema.cost
        self.evaluation_batch = max(1, min(512, 2**23 // (schema.size**2 * schema.dim)))
        if schema.presence:
            self.pooled = Precision(schema, distances(schema))
        self._read: dict[str, Batch] = {}

    def split(self, name: str) -> Batch:
        """Inputs, sets and masks; val.jsonl serves as both `val` and `test`."""
        data, file = self.settings.data, "train" if name == "train" else "val"
        if file not in self._read:
            size = data.size if data.kind == "image" else None
            folder = opened(Path(data.folder), size, data.schema)
            if (folder.inputs.kind, folder.inputs.dim) != (data.kind, data.dim):
                raise UsageError(f"{data.folder}: the inputs are not those of this run: train another one")
            if data.kind == "set" and folder.inputs.size > data.size:
                raise UsageError(
                    f"{data.folder}: an input set has {folder.inputs.size} elements, data.size={data.size} is the most"
                )
            dataset, count = (folder.train, data.train) if file == "train" else (folder.val, data.test)
            if not 0 < count <= len(dataset):
                key = "data.train" if file == "train" else "data.test"
                raise UsageError(f"{dataset.path} holds {len(dataset)} examples, {key}={count} are asked for")
            with asked():
                self._read[file] = read_tensors(dataset, count)
            if name == "train" and self.settings.optim.start is None:
                self._measure(self._read[file][0])
        return self._read[file]

    def _measure(self, inputs: Tensor) -> None:
        if isinstance(self.predictor.encoder, Standardized):
            rows = inputs if self.settings.data.kind == "vector" else inputs[inputs[..., -1] > 0][:, :-1]
            self.predictor.encoder.measure(rows)

    def forward(self, inputs: Tensor) -> Tensor:
        """Images in bytes, vectors, or sets whose last number says which elements exist → `[batch, size, dim]`."""
        return self.predictor(*self.with_mask(inputs))

    def with_mask(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """The inputs as the predictor takes them: sets and their mask, or anything else alone."""
        return (inputs[..., :-1], inputs[..., -1] > 0) if self.settings.data.kind == "set" else (inputs, None)

    def loss(self, batch: Batch) -> Tensor:
        (raw, target, _), decoder = batch, self.predictor.decoder
        assert decoder is not None
        inputs, mask = self.with_mask(raw)
        return decoding_loss(decoder, self.vectors(inputs, target, mask), target, self.cost)

    def judge(self, batch: Batch) -> dict[str, Tensor]:
        inputs, target, mask = batch
        prediction = self(inputs)
        if self.pooled is not None:
            self.pooled.update(prediction, target)
        found = agreement(self.schema, prediction, target, mask, self.settings.data.tolerance)
        fields = found.fields[mask.any(1)]
        return {
            "loss": hungarian_loss(prediction, target, cost=self.cost),
            "accuracy": found.exact.float(),
            "score": found.score,
            **{f"{name} right": fields[:, i] for i, name in enumerate(self.schema.fields)},
        }

    def way(self, batch: Batch, steps: int) -> Trace | None:
        assert self.predictor.decoder is not None
        z = self.predictor.encode(*self.with_mask(batch[0]))
        return self.predictor.decoder.solve(z, steps=steps, trace=True).trace


class Precision(SetAveragePrecision):
    """By the headline rule alone."""

    def compute(self) -> dict[str, Tensor]:
        return {name: value for name, value in super().compute().items() if not name.startswith("image_")}


def make_input_encoder(data: FolderData, net: ImageModelSettings) -> nn.Module:
    if data.kind == "image":
        return ImageEncoder(net.latent, data.size, net.width)
    if data.kind == "vector":
        return Standardized(VectorEncoder(data.dim, net.hidden, net.latent), data.dim)
    return Standardized(SetEncoder(data.dim, net.hidden, net.latent, data.size), data.dim)


def distances(schema: Schema) -> tuple[float, ...]:
    """At which average precision is measured, in the units of the data; only anywhere without a position."""
    position = schema.fields.get(schema.position_field or "")
    if not isinstance(position, Real):
        return (torch.inf,)
    return (torch.inf, *(float(f"{share * position.unit:.2g}") for share in DISTANCES))

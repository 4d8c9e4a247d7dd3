"""Objects from a folder of one's own: images, vectors or sets in, what its schema describes out."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..baselines import ImageTokens, SetTokens, VectorTokens
from ..baselines.rivals import make_rival
from ..constraints import Constraint
from ..data.jsonl_folder import Folder, open_folder, read_tensors
from ..encoders import SetEncoder, Standardized, VectorEncoder
from ..errors import UsageError, unknown, usage_errors
from ..image_encoder import ImageEncoder
from ..image_reader import ImageReader
from ..metrics import SetAveragePrecision, score_objects
from ..metrics.accuracy import has_repeats
from ..predictor import SetPredictor
from ..proposals import Proposer
from ..schema import Real, Schema
from ..trunks import ResNetTrunk
from ..values import read_json
from ..views.objects import ObjectsView
from ..views.view import Examples
from .augmentation import brightened, can_move, moved
from .experiment import Batch, Predicting
from .folder_settings import (
    EXCEPTIONS,
    MODELS,
    PRESETS,
    PROPOSING,
    FolderData,
    FolderSettings,
    best,
    image_inputs,
    patch,
    read_schema,
    rivals,
    summary,
    usual_model,
)
from .parts import make_decoder
from .settings import ImageModelSettings, changed
from .task import Task

CONSTRAINTS = ("usual", "fields")
DISTANCES = (0.5, 0.2, 0.1, 0.05)
"""At which average precision is measured, in the scale of the position."""


def describe(folder: Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that say what is in a folder, every line of which is checked; `data.size` may be asked for."""
    size = {key: value for key, value in overrides.items() if key == "data.size"}
    found = opened(folder, changed(FolderSettings(), size).data.size if size else None, None)
    width, height = found.inputs.canvas
    return {
        "data.folder": str(folder.resolve()),
        # A name that looks like a variable of the settings is written so that it does not.
        "data.schema": json.dumps(found.schema.to_dict(), ensure_ascii=False).replace("${", r"\u0024{"),
        "data.kind": found.inputs.kind,
        "data.dim": found.inputs.dim,
        "data.size": max(found.inputs.canvas) if found.inputs.kind == "image" else found.inputs.size,
        **({"data.width": width, "data.height": height} if found.inputs.kind == "image" else {}),
        "data.train": len(found.train),
        "data.test": len(found.val),
    }


def opened(folder: Path, size: int | None, schema: str | None) -> Folder:
    """The folder, read again only if its files have changed."""
    files = [folder / name for name in ("train.jsonl", "val.jsonl", "schema.yaml")]
    states = [path.stat() for path in files if path.exists()]
    with usage_errors():
        return _opened(folder, size, schema, tuple((state.st_size, state.st_mtime_ns) for state in states))


@lru_cache(maxsize=4)
def _opened(folder: Path, size: int | None, schema: str | None, stamp: tuple[tuple[int, int], ...]) -> Folder:
    return open_folder(folder, size, None if schema is None else Schema.from_dict(read_json(schema.encode())))


class OwnFolder(Predicting):
    """Predict the objects of an input; judged by their loss and by how many fields and whole sets are right."""

    monitor = "score"

    def __init__(self, settings: FolderSettings):
        super().__init__()
        self.settings = settings
        data = settings.data
        if not data.tolerance > 0:
            raise UsageError(f"data.tolerance is {data.tolerance}: use a number above 0")
        schema = self.schema = read_schema(data)
        self.predictor = make_predictor(settings, schema)
        # With all weights at 1 the two are the same, and the named one is compiled.
        self.cost = "huber" if all(field.weight == 1 for field in schema.fields.values()) else schema.cost
        self.evaluation_batch = max(
            1, min(128 if data.kind == "image" else 512, 2**23 // (schema.size**2 * schema.dim))
        )
        if schema.presence:
            self.pooled = Precision(schema, distances(schema))
        self._read: dict[str, Batch] = {}

    def split(self, name: str) -> Batch:
        """Inputs, sets, masks and the sizes of images; val.jsonl serves as both `val` and `test`."""
        data, file = self.settings.data, "train" if name == "train" else "val"
        if file not in self._read:
            folder = opened(Path(data.folder), None, data.schema)
            if (folder.inputs.kind, folder.inputs.dim) != (data.kind, data.dim):
                raise UsageError(
                    f"{data.folder}: the inputs differ in kind from the inputs of this run: train another run"
                )
            if data.kind == "set" and folder.inputs.size > data.size:
                raise UsageError(
                    f"{data.folder}: an input set has {folder.inputs.size} elements, data.size={data.size} is the most"
                )
            if data.kind == "image":
                folder = folder.reading(image_inputs(data))
            dataset, count = (folder.train, data.train) if file == "train" else (folder.val, data.test)
            if not 0 < count <= len(dataset):
                key = "data.train" if file == "train" else "data.test"
                raise UsageError(f"{dataset.path} holds {len(dataset)} examples, {key}={count} are requested")
            with usage_errors():
                self._read[file] = read_tensors(dataset, count)
        return self._read[file]

    def prepare(self, train: Batch) -> None:
        inputs = train[0]
        for part in self.predictor.encoder.modules():
            if isinstance(part, Standardized):
                part.measure(inputs if self.settings.data.kind == "vector" else inputs[inputs[..., -1] > 0][:, :-1])
        super().prepare(train)

    def augment(self, batch: Batch) -> Batch:
        if self.settings.data.kind != "image":
            return batch
        images, sets, mask, *rest = batch
        if can_move(self.schema):
            images, sets = moved(self.schema, images, sets, mask)
        return brightened(self.predictor.prepared(images)), sets, mask, *rest

    def losses(self, sets: Tensor, batch: Batch) -> Tensor:
        if isinstance(self.predictor.encoder, Proposer) and self.schema.presence:
            sets = sets * sets[..., -1:]  # absent elements are zeros in the target; those proposed may be anything
        return super().losses(sets, batch)

    def with_mask(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Of input sets the last number says which elements exist."""
        return (inputs[..., :-1], inputs[..., -1] > 0) if self.settings.data.kind == "set" else (inputs, None)

    def judge(self, batch: Batch) -> dict[str, Tensor]:
        inputs, target, mask, _ = batch
        prediction = self(inputs)
        if self.pooled is not None:
            self.pooled.update(prediction, target)
        found = score_objects(self.schema, prediction, target, mask, self.settings.data.tolerance)
        fields, repeats = found.fields[mask.any(1)], has_repeats(target, mask)
        return {
            "loss": self.losses(prediction, batch),
            "accuracy": found.exact.float(),
            **({"accuracy_repeats": found.exact[repeats].float()} if repeats.any() else {}),
            "score": found.score,
            **{f"{name} right": fields[:, i] for i, name in enumerate(self.schema.fields)},
        }

    def examples(self) -> Examples | None:
        shown = super().examples()
        return None if shown is None else replace(shown, schema=self.schema, sizes=self.split("test")[3])


class Precision(SetAveragePrecision):
    """By the headline rule alone."""

    def compute(self) -> dict[str, Tensor]:
        return {name: value for name, value in super().compute().items() if not name.startswith("image_")}


def make_predictor(settings: FolderSettings, schema: Schema) -> SetPredictor:
    if settings.model in PROPOSING:
        return SetPredictor(make_proposer(settings, schema), None, schema)
    constraint = make_constraint(settings.net.constraint, schema)
    decoder = make_decoder(settings, schema.size, schema.dim, constraint=constraint)
    return SetPredictor(make_input_encoder(settings.data, settings.net), decoder, schema)


def make_proposer(settings: FolderSettings, schema: Schema) -> Proposer:
    """A model that proposes elements, without a decoder."""
    data, net = settings.data, settings.net
    if settings.model == "reader":
        if data.kind != "image":
            raise UsageError(f"reader reads images, the inputs are {data.kind}s: use another model, such as idspn")
        public = net.weights is not None
        side = ResNetTrunk.patch if public else patch(data)
        return ImageReader(schema, net.width, side, image_inputs(data).canvas, resnet=public)
    return make_rival(
        settings.model,
        schema,
        net.latent,
        encoder=lambda: make_input_encoder(data, net),
        tokens=lambda: make_tokens(data, net),
    )


def make_constraint(name: str | None, schema: Schema) -> Constraint | None:
    if name not in (None, *CONSTRAINTS):
        raise unknown("net.constraint", name, [*CONSTRAINTS, "none"])
    return None if name is None else schema.constraint(even_absent=name == "fields")


def make_input_encoder(data: FolderData, net: ImageModelSettings) -> nn.Module:
    if data.kind == "image":
        inputs = image_inputs(data)
        return ImageEncoder(net.latent, inputs.size if inputs.height is None else inputs.canvas, net.width)
    if data.kind == "vector":
        return Standardized(VectorEncoder(data.dim, net.hidden, net.latent), data.dim)
    return Standardized(SetEncoder(data.dim, net.hidden, net.latent, data.size), data.dim)


def make_tokens(data: FolderData, net: ImageModelSettings) -> nn.Module:
    """What queries and slots look at."""
    if data.kind == "image":
        public = net.weights is not None
        side = ResNetTrunk.patch if public else patch(data)
        return ImageTokens(net.width, side, canvas=image_inputs(data).canvas, resnet=public)
    return VectorTokens(data.dim, net.hidden) if data.kind == "vector" else SetTokens(data.dim, data.size)


def distances(schema: Schema) -> tuple[float, ...]:
    """At which average precision is measured, in the units of the data; only anywhere without a position."""
    position = schema.fields.get(schema.position_field or "")
    if not isinstance(position, Real):
        return (torch.inf,)
    return (torch.inf, *(float(f"{fraction * position.unit:.2g}") for fraction in DISTANCES))


def problem(settings: FolderSettings) -> str:
    data = settings.data
    return f"{Path(data.folder).name}, {data.kind} inputs, {data.train:,} to train on"


TASK = Task(
    FolderSettings,
    OwnFolder,
    MODELS,
    PRESETS,
    best,
    usual_model,
    without_decoder=PROPOSING,
    rivals=rivals,
    exceptions=EXCEPTIONS,
    describe=describe,
    summary=summary,
    problem=problem,
    goal="Predict the objects that belong to an input.",
    metric="score",
    meaning="how close the fields of matched objects are, averaged over true and predicted objects",
    achievement="scores {}",
    lower_is_better=False,
    view=ObjectsView(),
)

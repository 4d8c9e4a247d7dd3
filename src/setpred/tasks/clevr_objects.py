"""Objects of CLEVR's scenes from images (the paper's third experiment), or from the objects themselves."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..baselines import CompetingSlots, ImageTokens, LearnedQueries, SlotAttention, SlotMLP, slot_loss
from ..baselines.slot_attention import absent_in_corner
from ..data.clevr import CLEVR_SCHEMA
from ..data.scene_cache import RENDERED, SceneSplit
from ..encoders import SetEncoder
from ..errors import UsageError
from ..image_encoder import ImageEncoder
from ..image_reader import ImageReader
from ..matching import hungarian_loss
from ..metrics import SetAveragePrecision
from ..predictor import SetPredictor
from ..proposals import Proposer
from ..views.scenes import ScenesView
from ..views.view import Examples
from .augmentation import brightened, mirrored
from .clevr_settings import (
    BASELINES,
    EVERY_ITERATION,
    EXCEPTIONS,
    MODELS,
    PRESETS,
    RANGES,
    ClevrSettings,
    best,
    usual_model,
)
from .experiment import Batch, Chunks, Predicting
from .parts import decoder_multiplications, encoder_multiplications, make_decoder
from .task import Task

SIZE, DIM = CLEVR_SCHEMA.size, CLEVR_SCHEMA.dim
READERS: dict[str, Callable[[int, bool], Proposer]] = {
    "reader": lambda width, resnet: ImageReader(CLEVR_SCHEMA, width, resnet=resnet),
    "reader-queries": lambda width, resnet: LearnedQueries(CLEVR_SCHEMA, ImageTokens(width, resnet=resnet)),
    "reader-slots": lambda width, resnet: CompetingSlots(CLEVR_SCHEMA, ImageTokens(width, resnet=resnet)),
}
IMAGE = 0.6e9
"""Multiplications of an image encoder at 128×128 pixels; the convolutions of slot models are as many."""
STAGES = (5, 10, 20, 40)
"""Iterations after which a report shows a scene."""


class Clevr(Predicting):
    """Predict the objects of a scene; judged by their loss and by average precision at six distances."""

    evaluation_batch = 128
    pooled: SetAveragePrecision

    def __init__(self, settings: ClevrSettings):
        super().__init__()
        self.settings = settings
        self.predictor = make_predictor(settings)
        self.pooled = SetAveragePrecision(CLEVR_SCHEMA)

    def split(self, name: str) -> Batch:
        data = self.settings.data
        if name == "val":  # CLEVR's own val is what is tested on
            return ()
        return self.scenes("train", data.train) if name == "train" else self.scenes("val", data.test)

    def scenes(self, name: str, count: int) -> Batch:
        """The first scenes of `train` or `val`: images in bytes (or the sets once more), and sets."""
        data = self.settings.data
        scenes = SceneSplit(data.source, name, count, data.size, data.stretched)
        return (scenes.images() if data.images else scenes.sets(), scenes.sets())

    def augment(self, batch: Batch) -> Batch:
        if not isinstance(self.predictor.encoder, Proposer):
            return batch
        images, sets = batch
        images, sets = mirrored(images, sets, torch.rand(len(sets)) < 0.5)
        return brightened(self.predictor.prepared(images)), sets

    def loss(self, batch: Batch) -> Tensor:
        if self.settings.model not in BASELINES:
            return super().loss(batch)
        (inputs, target), name = batch, self.settings.model
        every = {"every_iteration": True} if name in EVERY_ITERATION else {}
        prediction = self.predictor.encoder(self.predictor.prepared(inputs), **every)
        return slot_loss(prediction, target, coordinate_range=RANGES[name]).mean()

    def losses(self, sets: Tensor, batch: Batch) -> Tensor:
        target = absent_in_corner(batch[1]) if self.settings.model in BASELINES else batch[1]
        return hungarian_loss(sets, target, self.cost)

    def judge(self, batch: Batch) -> dict[str, Tensor]:
        prediction = self.sets(batch)
        self.pooled.update(prediction, batch[1])
        return {"loss": self.losses(prediction, batch)}

    def examples(self) -> Examples | None:
        """With what the decoder had after each of the `STAGES`."""
        shown = super().examples()
        assert shown is not None
        if not self.settings.data.images:
            shown.inputs = None
        traces = [self.trace(chunk, max(STAGES)) for chunk in Chunks(self.split("test"), 64)]
        stages = [trace.sets[list(STAGES)] for trace in traces if trace is not None]
        shown.iterates = {"predicted": shown.predicted}
        if stages:
            names = (f"{stage} iterations" for stage in STAGES)
            shown.iterates = dict(zip(names, torch.cat(stages, dim=1), strict=True))
        return shown


def make_predictor(settings: ClevrSettings) -> SetPredictor:
    """From an image, or from a set of objects, to the set of objects."""
    if settings.model in BASELINES:
        return SetPredictor(make_baseline(settings), None, CLEVR_SCHEMA)
    net, data = settings.net, settings.data
    if settings.model in READERS:
        if not data.images:
            raise UsageError(f"{settings.model} needs images: data.images=false is for the decoders, such as idspn")
        reader = READERS[settings.model](net.width, net.weights is not None)
        if isinstance(reader, ImageReader) and not data.stretched:
            reader.canvas = SceneSplit(data.source, "val", data.test, data.size, data.stretched).frame
        return SetPredictor(reader, None, CLEVR_SCHEMA)
    encoder: nn.Module
    if data.images:
        encoder = ImageEncoder(net.latent, data.size, net.width)
    else:
        encoder = SetEncoder(DIM, net.hidden, net.latent, SIZE)
    return SetPredictor(encoder, make_decoder(settings, SIZE, DIM), CLEVR_SCHEMA)


def make_baseline(settings: ClevrSettings) -> nn.Module:
    data = settings.data
    if not data.images:
        raise UsageError(f"{settings.model} needs images: data.images=false is for the decoders, such as idspn")
    if settings.model == "slot-mlp":
        return SlotMLP(data.size, SIZE, DIM)
    implicit = settings.model == "slot-attention-implicit"
    return SlotAttention(SIZE, DIM, iterations=4 if implicit else 3, implicit=implicit)


def problem(settings: ClevrSettings) -> str:
    data = settings.data
    scenes = "rendered scenes" if data.source == RENDERED else data.source
    width, height = SceneSplit(data.source, "val", data.test, data.size, data.stretched).frame
    seen = f"images of {width}×{height} pixels" if data.images else "no images"
    return f"{scenes}, {seen}, {data.train:,} to train on"


def multiplications(flat: Mapping[str, Any]) -> float:
    of_image = IMAGE * (flat["data.size"] / 128) ** 2
    if flat["model"] in BASELINES:
        return of_image
    encoded = (
        of_image * (flat["net.width"] / 64) ** 2 if flat["data.images"] else encoder_multiplications(flat, SIZE, DIM)
    )
    return encoded + decoder_multiplications(flat, SIZE, DIM)


TASK = Task(
    ClevrSettings,
    Clevr,
    MODELS,
    PRESETS,
    best,
    usual_model,
    without_decoder=(*BASELINES, *READERS),
    rivals=lambda settings: ("idspn", "dspn", "slot-attention", "slot-attention-implicit", "slot-mlp", *READERS),
    exceptions=EXCEPTIONS,
    problem=problem,
    goal="Find every object of a scene: its place, size, colour, shape and material.",
    metric="ap_0.5",
    meaning="average precision: an object counts if it is predicted within a distance of 0.5 with all attributes right",
    achievement="has an average precision of {} within a distance of 0.5",
    lower_is_better=False,
    comparison="distances",
    baselines_differ="with other weights",
    view=ScenesView(),
    multiplications=multiplications,
)

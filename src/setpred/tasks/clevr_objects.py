"""Objects of CLEVR's scenes from images (the paper's third experiment), or from the objects themselves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
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
from ..recipes import recipe
from ..solvers import Nesterov
from ..views.scenes import ScenesView
from ..views.view import Examples
from .augmentation import brightened, mirrored
from .experiment import Batch, Chunks, Predicting
from .parts import decoder_multiplications, encoder_multiplications, make_decoder
from .settings import ImageModelSettings, ImageOptimSettings, Settings
from .task import Task

SIZE, DIM = CLEVR_SCHEMA.size, CLEVR_SCHEMA.dim
IMAGE = 0.6e9
"""Multiplications of an image encoder at 128×128 pixels; the convolutions of slot models are as many."""
STAGES = (5, 10, 20, 40)
"""Iterations after which a report shows a scene."""


@dataclass
class ClevrData:
    """Scenes of objects. A model is trained on the train split and tested on val.

    Attributes:
        source: scenes (rendered by setpred), or a folder in CLEVR's layout.
        images: read images; false encodes the true objects and decodes them again.
        size: pixels per side of images that are stretched to squares, or else the width of the 3:2 frame.
        stretched: stretch images to squares, as published.
        train: training scenes.
        test: test scenes.
    """

    source: str = RENDERED
    images: bool = True
    size: int = 128
    stretched: bool = True
    train: int = 70_000
    test: int = 15_000


@dataclass
class ClevrSettings(Settings):
    task: str = "clevr"
    solver: dict[str, Any] = field(default_factory=lambda: recipe(Nesterov(steps=40, clip=10.0)))
    net: ImageModelSettings = field(default_factory=ImageModelSettings)
    optim: ImageOptimSettings = field(
        default_factory=lambda: ImageOptimSettings(steps=54_600, schedule="drop", iterations="20,40")
    )
    data: ClevrData = field(default_factory=ClevrData)


DSPN = {"solver.clip": None, "adjoint": "Unrolled"}
READER = {
    "data.size": 192,
    "data.stretched": False,
    "net.width": 32,
    "optim.batch": 32,
    "optim.lr": 2e-3,
    "optim.weight_decay": 0.02,
    "optim.schedule": "one-cycle",
}
READERS: dict[str, Callable[[int, bool], Proposer]] = {
    "reader": lambda width, resnet: ImageReader(CLEVR_SCHEMA, width, resnet=resnet),
    "reader-queries": lambda width, resnet: LearnedQueries(CLEVR_SCHEMA, ImageTokens(width, resnet=resnet)),
    "reader-slots": lambda width, resnet: CompetingSlots(CLEVR_SCHEMA, ImageTokens(width, resnet=resnet)),
}
FULL = {
    "data.train": 50_000,
    "data.test": 2_000,
    "net.width": 48,
    "optim.lr": 1.5e-3,
    "optim.steps": 14_000,
    "trainer.round": 500,
}
"""The readers' full size, which follows no published protocol."""
SLOTS = {"optim.lr": 4e-4, "optim.schedule": "halving"}
MODELS: dict[str, dict[str, Any]] = {
    "idspn": {},
    "idspn-0.5": {"solver.momentum": 0.5},
    "dspn": DSPN | {"solver.momentum": 0.5},
    "dspn-0.9": DSPN,
    "idspn-sum": {"net.pool": "sum"},
    "idspn-mean": {"net.pool": "mean"},
    "idspn-relation": {"net.relation": True},
    "slot-attention": SLOTS,
    "slot-attention-star": SLOTS,
    "slot-attention-dagger": SLOTS,
    "slot-attention-implicit": SLOTS,
    "slot-mlp": SLOTS,
    **dict.fromkeys(READERS, READER),
}
# How long the range of a coordinate is taken to be in the loss; the marked ones are judged at every iteration.
RANGES = {
    "slot-attention": 1.0,
    "slot-attention-star": 2.0,
    "slot-attention-dagger": 6.0,
    "slot-attention-implicit": 2.0,
    "slot-mlp": 1.0,
}
EVERY_ITERATION = ("slot-attention-star", "slot-attention-dagger")
BASELINES = tuple(RANGES)
WITHOUT_DECODER = (*BASELINES, *READERS)

SMALL = {
    "data.size": 64,
    "data.train": 20_000,
    "data.test": 2_000,
    "net.width": 32,
    "optim.batch": 32,
    "optim.steps": 8_000,
    "trainer.round": 250,
}
QUICK = {
    "data.train": 3_000,
    "data.test": 500,
    "optim.steps": 300,
    "trainer.round": 50,
    "solver.steps": 20,
    "optim.iterations": "10,20",
}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"trainer.round": 546},  # an epoch
    "small": SMALL,
    "quick": SMALL | QUICK,
}
# Steps of the models whose steps cost more or less than iDSPN's, so that all take the same time.
SMALL_STEPS = {
    "dspn": 3_000,
    "dspn-0.9": 3_000,
    "idspn-relation": 2_000,
    **dict.fromkeys(BASELINES, 5_600),
    "slot-mlp": 5_000,
}
EXCEPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    **{("paper", model): {"optim.batch": 512, "optim.steps": 200_000} for model in BASELINES},
    **{("small", model): {"optim.steps": steps} for model, steps in SMALL_STEPS.items()},
    **{("paper", model): FULL for model in READERS},
    **{("small", model): {"optim.steps": 4_000} for model in READERS},
    **{("quick", model): {"data.train": 5_000, "optim.steps": 1_200} for model in READERS},
}
# See docs/beyond.md.
BEST = {"optim.sets_first": 1 / 16, "optim.lr": 3e-3, "optim.schedule": "cosine"}


def best(settings: ClevrSettings) -> dict[str, Any]:
    return BEST


def usual_model(preset: str, folder: Path | None) -> str:
    """The published one, and the reader where the best is asked for."""
    return "reader" if preset.endswith("best") else "idspn"


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
    model, net, data = settings.model, settings.net, settings.data
    if not data.images and model in WITHOUT_DECODER:
        raise UsageError(f"{model} needs images: data.images=false is for the decoders, such as idspn")
    encoder: nn.Module
    if model in READERS:
        encoder = READERS[model](net.width, net.weights is not None)
        if isinstance(encoder, ImageReader) and not data.stretched:
            encoder.canvas = SceneSplit(data.source, "val", data.test, data.size, data.stretched).frame
    elif model == "slot-mlp":
        encoder = SlotMLP(data.size, SIZE, DIM)
    elif model in BASELINES:
        implicit = model == "slot-attention-implicit"
        encoder = SlotAttention(SIZE, DIM, iterations=4 if implicit else 3, implicit=implicit)
    elif data.images:
        encoder = ImageEncoder(net.latent, data.size, net.width)
    else:
        encoder = SetEncoder(DIM, net.hidden, net.latent, SIZE)
    decoder = None if model in WITHOUT_DECODER else make_decoder(settings, SIZE, DIM)
    return SetPredictor(encoder, decoder, CLEVR_SCHEMA)


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
    without_decoder=WITHOUT_DECODER,
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

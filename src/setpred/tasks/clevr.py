"""Objects of CLEVR's scenes from images (the paper's third experiment), or from the objects themselves."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import equivariance
from ..baselines import QueryReader, SlotAttention, SlotMLP, SlotReader, slot_loss
from ..data.clevr import CLEVR_SCHEMA
from ..data.scene_cache import RENDERED, SceneSplit
from ..data.scenes import camera
from ..encoders import SetEncoder
from ..equivariance import Report
from ..errors import UsageError
from ..image_encoder import ImageEncoder
from ..image_reader import ImageReader, Reader
from ..metrics import SetAveragePrecision
from ..predictor import SetPredictor
from ..recipes import recipe
from ..solvers import Nesterov
from ..views.scenes import ScenesView
from ..views.view import Examples
from .experiment import Batch, Chunks, Predicting
from .parts import make_decoder
from .settings import ImageModelSettings, ImageOptimSettings, Settings
from .task import Task

SIZE, DIM = CLEVR_SCHEMA.size, CLEVR_SCHEMA.dim


@dataclass
class ClevrData:
    """`source` is `scenes`, rendered here, or a folder in CLEVR's layout; trained on its train split, tested on val.

    Without `images` the objects are encoded and decoded again. `size` is in pixels a side of images that are stretched
    to squares, as published; with `stretched=false` it is the width of the 3:2 frame.
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
    "slot-mlp": SLOTS,
    "reader": READER,
    "reader-queries": READER,
    "reader-slots": READER,
}
READERS: dict[str, type[Reader]] = {
    "reader": ImageReader,
    "reader-queries": QueryReader,
    "reader-slots": SlotReader,
}
# How long the range of a coordinate is taken to be in the loss; the marked ones are judged at every iteration.
RANGES = {"slot-attention": 1.0, "slot-attention-star": 2.0, "slot-attention-dagger": 6.0, "slot-mlp": 1.0}
EVERY_ITERATION = ("slot-attention-star", "slot-attention-dagger")
BASELINES = tuple(RANGES)
STAGES = (5, 10, 20, 40)
"""Iterations after which a report shows a scene."""
BRIGHTNESS = 0.2
"""Images are made brighter or darker by up to this fraction in training."""

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
    **{("paper", model): {"optim.batch": 512, "optim.steps": 150_000} for model in BASELINES},
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
        if not isinstance(self.predictor.encoder, Reader):
            return batch
        images, sets = batch
        images, sets = mirrored(images, sets, torch.rand(len(sets)) < 0.5)
        light = 1 + BRIGHTNESS * (2 * torch.rand(len(sets), 1, 1, 1) - 1)
        return self.predictor.prepared(images) * light.to(sets.device), sets

    def loss(self, batch: Batch) -> Tensor:
        if self.settings.model not in BASELINES:
            return super().loss(batch)
        (inputs, target), name = batch, self.settings.model
        every = {"every_iteration": True} if name in EVERY_ITERATION else {}
        prediction = self.predictor.encoder(self.predictor.prepared(inputs), **every)
        return slot_loss(prediction, target, coordinate_range=RANGES[name]).mean()

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
        traces = [self.way(chunk, max(STAGES)) for chunk in Chunks(self.split("test"), 64)]
        stages = [trace.sets[list(STAGES)] for trace in traces if trace is not None]
        shown.iterates = {"predicted": shown.predicted}
        if stages:
            names = (f"{stage} iterations" for stage in STAGES)
            shown.iterates = dict(zip(names, torch.cat(stages, dim=1), strict=True))
        return shown

    def check(self) -> Report:
        """The model as a function of its initial set or slots."""
        model = self.predictor.encoder
        if not isinstance(model, SlotAttention):
            return super().check()
        features = model.features(self.predictor.prepared(self.split("test")[0][:1]))  # once: the image stays the same

        def attend(slots: Tensor) -> Tensor:
            with torch.no_grad():
                return model.head(model.attention(features.expand(len(slots), -1, -1), slots)[-1])

        return equivariance.check(attend, size=model.size, dim=model.width)


def mirrored(images: Tensor, sets: Tensor, which: Tensor) -> Batch:
    """Some examples as in a mirror that stands upright between the camera and the middle of the scene."""
    which = which.to(sets.device)
    across = torch.tensor(camera.axes()[0]).to(sets)
    places = CLEVR_SCHEMA.slices["3d_coords"]
    turned = sets.clone()
    turned[..., places] -= 2 * (sets[..., places] @ across).unsqueeze(-1) * across
    images = torch.where(which.view(-1, 1, 1, 1), images.flip(3), images)
    return images, torch.where(which.view(-1, 1, 1), turned, sets)


def make_predictor(settings: ClevrSettings) -> SetPredictor:
    """From an image, or from a set of objects, to the set of objects."""
    if settings.model in BASELINES:
        return SetPredictor(make_baseline(settings), None, CLEVR_SCHEMA)
    net, data = settings.net, settings.data
    if settings.model in READERS:
        if not data.images:
            raise UsageError(f"{settings.model} needs images: data.images=false is for the decoders, such as idspn")
        reader = READERS[settings.model](CLEVR_SCHEMA, net.width)
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
    return SlotAttention(SIZE, DIM)


def problem(settings: ClevrSettings) -> str:
    data = settings.data
    scenes = "rendered scenes" if data.source == RENDERED else data.source
    width, height = SceneSplit(data.source, "val", data.test, data.size, data.stretched).frame
    seen = f"images of {width}×{height} pixels" if data.images else "no images"
    return f"{scenes}, {seen}, {data.train:,} to train on"


TASK = Task(
    ClevrSettings,
    Clevr,
    MODELS,
    PRESETS,
    best,
    usual_model,
    without_decoder=(*BASELINES, *READERS),
    exceptions=EXCEPTIONS,
    problem=problem,
    metric="ap_0.5",
    lower_is_better=False,
    comparison="distances",
    baselines_differ="with other weights",
    view=ScenesView(),
)

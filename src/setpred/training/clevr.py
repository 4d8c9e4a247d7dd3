"""Objects of CLEVR's scenes from images (the paper's third experiment), or from the objects themselves."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from ..average_precision import SetAveragePrecision
from ..baselines import SlotAttention, SlotMLP, slot_loss
from ..data.clevr import CLEVR_SCHEMA
from ..encoders import SetEncoder
from ..errors import UsageError
from ..image_encoder import ImageEncoder
from ..matching import hungarian_loss
from ..predictor import SetPredictor
from ..solution import Trace
from .experiment import Batch, decoding_loss
from .parts import make_decoder
from .predicting import Predicting
from .scene_cache import RENDERED, SceneSplit
from .settings import ImageModelSettings, ImageOptimSettings, Settings, SolverSettings

SIZE, DIM = CLEVR_SCHEMA.size, CLEVR_SCHEMA.dim


@dataclass
class ClevrData:
    """`source` is `scenes`, rendered here, or a folder in CLEVR's layout; trained on its train split, tested on val.

    Without `images` the objects are encoded and decoded again. `size` is in pixels a side.
    """

    source: str = RENDERED
    images: bool = True
    size: int = 128
    train: int = 70_000
    test: int = 15_000


@dataclass
class ClevrSettings(Settings):
    task: str = "clevr"
    solver: SolverSettings = field(default_factory=lambda: SolverSettings(steps=40, schedule="20,40", clip=10.0))
    net: ImageModelSettings = field(default_factory=ImageModelSettings)
    optim: ImageOptimSettings = field(default_factory=lambda: ImageOptimSettings(steps=54_600, schedule="drop"))
    data: ClevrData = field(default_factory=ClevrData)


DSPN = {"solver.clip": None, "adjoint.name": "unrolled"}
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
}
# How long the range of a coordinate is taken to be in the loss; the marked ones are judged at every iteration.
RANGES = {"slot-attention": 1.0, "slot-attention-star": 2.0, "slot-attention-dagger": 6.0, "slot-mlp": 1.0}
EVERY_ITERATION = ("slot-attention-star", "slot-attention-dagger")
BASELINES = tuple(RANGES)

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
    "solver.schedule": "10,20",
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
}


# See docs/beyond.md.
BEST = {"optim.sets_first": 1 / 16, "optim.lr": 3e-3, "optim.schedule": "cosine"}


def best(settings: ClevrSettings) -> dict[str, Any]:
    return BEST


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
        scenes = SceneSplit(data.source, name, count, data.size)
        return (scenes.images() if data.images else scenes.sets(), scenes.sets())

    def forward(self, inputs: Tensor) -> Tensor:
        """Images `[batch, 3, size, size]` in bytes or in [0, 1], or sets, to sets `[batch, 10, 19]`."""
        return self.predictor(inputs)

    def loss(self, batch: Batch) -> Tensor:
        inputs, target = batch
        name = self.settings.model
        decoder = self.predictor.decoder
        if decoder is not None:
            return decoding_loss(decoder, self.vectors(inputs, target), target)
        every = {"every_iteration": True} if name in EVERY_ITERATION else {}
        prediction = self.predictor.encoder(self.predictor.prepared(inputs), **every)
        return slot_loss(prediction, target, coordinate_range=RANGES[name]).mean()

    def judge(self, batch: Batch) -> dict[str, Tensor]:
        inputs, target = batch
        prediction = self(inputs)
        self.pooled.update(prediction, target)
        return {"loss": hungarian_loss(prediction, target, cost="huber")}

    def way(self, batch: Batch, steps: int) -> Trace | None:
        decoder = self.predictor.decoder
        if decoder is None:
            return None
        return decoder.solve(self.predictor.encode(batch[0]), steps=steps, trace=True).trace


def make_predictor(settings: ClevrSettings) -> SetPredictor:
    """From an image, or from a set of objects, to the set of objects."""
    if settings.model in BASELINES:
        return SetPredictor(make_baseline(settings), None, CLEVR_SCHEMA)
    net, data = settings.net, settings.data
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

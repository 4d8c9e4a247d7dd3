"""Settings of CLEVR: its data, the models and what each changes, presets for every size."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.scene_cache import RENDERED
from ..recipes import recipe
from ..solvers import Nesterov
from .settings import ImageModelSettings, ImageOptimSettings, Settings


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
READERS = ("reader", "reader-queries", "reader-slots")
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

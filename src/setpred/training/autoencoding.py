"""Autoencoding random multisets (the paper's second experiment)."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..data.random_sets import random_sets
from ..encoders import SetEncoder
from ..matching import hungarian_loss
from .experiment import Batch, Experiment, Splits, mixed_seed
from .parts import make_decoder
from .settings import InitSettings, Settings


@dataclass
class AutoencodingData:
    """n elements of d numbers."""

    n: int = 4
    d: int = 4
    train: int = 64_000
    test: int = 6_400


@dataclass
class AutoencodingSettings(Settings):
    task: str = "autoencoding"
    init: InitSettings = field(default_factory=lambda: InitSettings(name="learned"))
    data: AutoencodingData = field(default_factory=AutoencodingData)


MODELS: dict[str, dict[str, Any]] = {
    "idspn": {},
    "idspn-no-momentum": {"solver.name": "gradient-descent"},
    "dspn": {"solver.name": "gradient-descent", "adjoint.name": "unrolled"},
    "idspn-sum": {"net.pool": "sum"},
    "idspn-mean": {"net.pool": "mean"},
}

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {"net.hidden": 128, "net.latent": 128, "optim.steps": 8_000},
    "quick": {"net.hidden": 128, "net.latent": 128, "data.d": 2, "optim.steps": 2_000, "trainer.round": 200},
}


class Autoencoding(Experiment):
    """Encode a set with FSPool, decode it again; judged by the Hungarian Huber loss."""

    def __init__(self, settings: AutoencodingSettings):
        super().__init__()
        n, d, net = settings.data.n, settings.data.d, settings.net
        self.settings = settings
        self.encoder = SetEncoder(d, net.hidden, net.latent, n)
        self.decoder = make_decoder(settings, n, d)

    def splits(self) -> Splits:
        data, seed = self.settings.data, self.settings.seed
        train = random_sets(data.train, data.n, data.d, mixed_seed(seed, 1))
        test = random_sets(data.test, data.n, data.d, mixed_seed(seed, 2))
        return Splits((train,), (), (test,))

    def forward(self, sets: Tensor) -> Tensor:
        return self.decoder(self.encoder(sets))

    def loss(self, batch: Batch) -> Tensor:
        (sets,) = batch
        return hungarian_loss(self(sets), sets, cost="huber").mean()

    def judge(self, batch: Batch) -> dict[str, Tensor]:
        (sets,) = batch
        return {"loss": hungarian_loss(self(sets), sets, cost="huber")}

    def diagnostics(self) -> dict[str, Tensor]:
        return self.decoder.diagnostics

"""Autoencoding random multisets (the paper's second experiment)."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from ..data.random_sets import random_masks, random_sets
from ..encoders import SetEncoder
from ..errors import UsageError
from ..matching import hungarian_loss
from ..solution import Trace
from .experiment import Batch, Experiment, decoding_loss, mixed_seed
from .parts import make_decoder
from .restarting import restarts
from .settings import InitSettings, NetSettings, Settings


@dataclass
class AutoencodingData:
    """n elements of d numbers; with `smallest`, sets have from that many to n elements."""

    n: int = 4
    d: int = 4
    smallest: int | None = None
    train: int = 64_000
    test: int = 6_400


@dataclass
class AutoencoderSettings(NetSettings):
    """With `shared`, sets are encoded by the decoder's own encoder, so that the true set has an inner loss of 0."""

    shared: bool = False


@dataclass
class AutoencodingSettings(Settings):
    task: str = "autoencoding"
    net: AutoencoderSettings = field(default_factory=AutoencoderSettings)
    init: InitSettings = field(default_factory=lambda: InitSettings(name="learned"))
    data: AutoencodingData = field(default_factory=AutoencodingData)


PLAIN_DESCENT = {"solver.name": "gradient-descent", "solver.settle": False}
MODELS: dict[str, dict[str, Any]] = {
    "idspn": {},
    "idspn-no-momentum": PLAIN_DESCENT,
    "dspn": PLAIN_DESCENT | {"adjoint.name": "unrolled"},
    "idspn-sum": {"net.pool": "sum"},
    "idspn-mean": {"net.pool": "mean"},
}

NARROW = {"net.hidden": 128, "net.latent": 128}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": NARROW,
    "quick": NARROW | {"data.d": 2, "optim.steps": 8_000},
}
# See docs/beyond.md.
BEST = {
    "net.shared": True,
    "init.name": "guessed",
    "solver.settle": True,
    "optim.lr": 3e-3,
    "optim.schedule": "cosine",
}


def best(settings: AutoencodingSettings) -> dict[str, Any]:
    return BEST | restarts(settings.solver)


class Autoencoding(Experiment):
    """Encode a set with FSPool, decode it again; judged by the Hungarian Huber loss."""

    encoder: nn.Module

    def __init__(self, settings: AutoencodingSettings):
        super().__init__()
        n, d, net = settings.data.n, settings.data.d, settings.net
        if settings.data.smallest is not None and not 1 <= settings.data.smallest <= n:
            raise UsageError(f"data.smallest is {settings.data.smallest}: sets have from 1 to data.n={n} elements")
        self.settings = settings
        if not net.shared:
            self.encoder = SetEncoder(d, net.hidden, net.latent, n)
        self.decoder = make_decoder(settings, n, d)
        if net.shared:
            object.__setattr__(self, "encoder", self.decoder.encoder)  # not registered: its weights are saved once

    def split(self, name: str) -> Batch:
        data, seed = self.settings.data, self.settings.seed
        if name == "val":
            return ()
        count, which = (data.train, 1) if name == "train" else (data.test, 2)
        sets = random_sets(count, data.n, data.d, mixed_seed(seed, which))
        if data.smallest is None:
            return (sets,)
        mask = random_masks(count, data.smallest, data.n, mixed_seed(seed, which, 1))
        return sets * mask.unsqueeze(-1), mask

    def forward(self, sets: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.decoder(self.encoder(sets, mask), mask)

    def loss(self, batch: Batch) -> Tensor:
        sets, mask = _with_mask(batch)
        return decoding_loss(self.decoder, self.encoder(sets, mask), sets, mask=mask)

    def judge(self, batch: Batch) -> dict[str, Tensor]:
        sets, mask = _with_mask(batch)
        return {"loss": hungarian_loss(self(sets, mask), sets, cost="huber", mask=mask, prediction_mask=mask)}

    def way(self, batch: Batch, steps: int) -> Trace | None:
        sets, mask = _with_mask(batch)
        return self.decoder.solve(self.encoder(sets, mask), mask, steps=steps, trace=True).trace


def _with_mask(batch: Batch) -> tuple[Tensor, Tensor | None]:
    return (batch[0], batch[1]) if len(batch) == 2 else (batch[0], None)

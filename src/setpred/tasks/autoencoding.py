"""Autoencoding random multisets (the paper's second experiment)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..baselines import CodeTokens
from ..baselines.rivals import RIVALS, make_rival
from ..data.synthetic import mixed_seed, random_masks, random_sets
from ..encoders import SetEncoder
from ..equivariance import Report
from ..errors import UsageError
from ..inits import LearnedInit
from ..matching import hungarian_loss
from ..predictor import SetPredictor
from ..recipes import recipe
from ..schema import Real, Schema
from ..solution import Trace
from ..views.view import Examples
from .experiment import Batch, Chunks, Experiment, Predicting, check_decoder, decoding_loss
from .parts import decoder_multiplications, encoder_multiplications, make_decoder
from .settings import NetSettings, Settings, restarts
from .task import Task


@dataclass
class AutoencodingData:
    """Random multisets.

    Attributes:
        n: elements per set.
        d: numbers per element.
        smallest: draw the size of each set between this number and n.
        train: training examples.
        test: test examples.
    """

    n: int = 4
    d: int = 4
    smallest: int | None = None
    train: int = 64_000
    test: int = 6_400


@dataclass
class AutoencoderSettings(NetSettings):
    """The set networks of an autoencoder.

    Attributes:
        shared: encode sets with the decoder's own encoder, so that the true set has an inner loss of 0.
    """

    shared: bool = False


@dataclass
class AutoencodingSettings(Settings):
    task: str = "autoencoding"
    net: AutoencoderSettings = field(default_factory=AutoencoderSettings)
    init: dict[str, Any] = field(default_factory=lambda: recipe(LearnedInit()))
    data: AutoencodingData = field(default_factory=AutoencodingData)


PLAIN_DESCENT = {"solver": "GradientDescent"}
MODELS: dict[str, dict[str, Any]] = {
    "idspn": {},
    "idspn-no-momentum": PLAIN_DESCENT,
    "dspn": PLAIN_DESCENT | {"adjoint": "Unrolled"},
    "idspn-sum": {"net.pool": "sum"},
    "idspn-mean": {"net.pool": "mean"},
    **RIVALS,
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
    "init": "GuessedInit",
    "solver.settle": True,
    "optim.lr": 3e-3,
    "optim.schedule": "cosine",
}


def best(settings: AutoencodingSettings) -> dict[str, Any]:
    return BEST | restarts(settings.solver["steps"])


class Autoencoding(Experiment):
    """Encode a set with FSPool, decode it again; judged by the Hungarian Huber loss."""

    settings: AutoencodingSettings
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
        return random_split(self.settings, name)

    def forward(self, sets: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.decoder(self.encoder(sets, mask), mask)

    def loss(self, batch: Batch) -> Tensor:
        sets, mask = _with_mask(batch)
        return decoding_loss(self.decoder, self.encoder(sets, mask), sets, mask=mask, loss=self.settings.optim.loss)

    def as_predictor(self) -> SetPredictor:
        """Of points, from sets of points."""
        return SetPredictor(self.encoder, self.decoder, points(self.settings))

    def sets(self, batch: Batch) -> Tensor:
        return self(*batch)

    def target(self, batch: Batch) -> Tensor:
        return batch[0]

    def losses(self, sets: Tensor, batch: Batch) -> Tensor:
        target, mask = _with_mask(batch)
        return hungarian_loss(sets, target, cost="huber", mask=mask)

    def trace(self, batch: Batch, steps: int) -> Trace | None:
        sets, mask = _with_mask(batch)
        return self.decoder.solve(self.encoder(sets, mask), mask, steps=steps, trace=True).trace

    def examples(self) -> Examples | None:
        (sets, *masks) = batch = self.split("test")
        if masks:  # sets of different sizes: the playground draws them
            return None
        predicted = torch.cat([self.sets(chunk) for chunk in Chunks(batch, 256)])
        return Examples(None, sets, predicted, self.losses(predicted, batch))

    def check(self) -> Report:
        """The decoder as a function of its initial set."""
        sets = self.split("test")[0][:1].to(next(self.parameters()))
        return check_decoder(self.decoder, self.encoder(sets))


class RivalAutoencoding(Predicting):
    """The same without a decoder: a rival makes the set of the vector."""

    settings: AutoencodingSettings

    def __init__(self, settings: AutoencodingSettings):
        super().__init__()
        if settings.net.shared or settings.data.smallest is not None:
            key = "net.shared" if settings.net.shared else "data.smallest"
            raise UsageError(f"{settings.model} has no decoder: {key} is for models that have one, such as idspn")
        (n, d), net = (settings.data.n, settings.data.d), settings.net
        schema = points(settings)
        encoder = SetEncoder(d, net.hidden, net.latent, n)
        rival = make_rival(
            settings.model,
            schema,
            net.latent,
            encoder=lambda: encoder,
            tokens=lambda: CodeTokens(encoder, net.latent, net.hidden),
        )
        self.settings, self.predictor = settings, SetPredictor(rival, None, schema)

    def split(self, name: str) -> Batch:
        """Sets, the same as targets, and a mask: all elements exist."""
        sets = random_split(self.settings, name)
        return (*sets, *sets, *(torch.ones_like(own[..., 0], dtype=torch.bool) for own in sets))

    def examples(self) -> Examples | None:
        shown = super().examples()
        return None if shown is None else replace(shown, inputs=None)


def points(settings: AutoencodingSettings) -> Schema:
    """What an element is: a point, which is always there."""
    return Schema({"at": Real(settings.data.d)}, size=settings.data.n, presence=False)


def random_split(settings: AutoencodingSettings, name: str) -> Batch:
    """The sets of a split, and which of their elements exist where sets have different sizes."""
    data = settings.data
    if name == "val":
        return ()
    count, which = (data.train, 1) if name == "train" else (data.test, 2)
    sets = random_sets(count, data.n, data.d, mixed_seed(settings.seed, which))
    if data.smallest is None:
        return (sets,)
    mask = random_masks(count, data.smallest, data.n, mixed_seed(settings.seed, which, 1))
    return sets * mask.unsqueeze(-1), mask


def make_autoencoder(settings: AutoencodingSettings) -> Experiment:
    return (RivalAutoencoding if settings.model in RIVALS else Autoencoding)(settings)


def _with_mask(batch: Batch) -> tuple[Tensor, Tensor | None]:
    return (batch[0], batch[1]) if len(batch) == 2 else (batch[0], None)


def multiplications(flat: Mapping[str, Any]) -> float:
    n, d = flat["data.n"], flat["data.d"]
    return encoder_multiplications(flat, n, d) + decoder_multiplications(flat, n, d)


TASK = Task(
    AutoencodingSettings,
    make_autoencoder,
    MODELS,
    PRESETS,
    best,
    without_decoder=tuple(RIVALS),
    rivals=lambda settings: tuple(MODELS),
    problem=lambda settings: f"sets of {settings.data.n} elements in {settings.data.d} dimensions",
    goal="Encode a set of random points as one vector, and rebuild the set from that vector.",
    meaning="the mean Huber distance between true and rebuilt points, matched so that it is smallest",
    achievement="rebuilds sets with a loss of {}",
    comparison="iterations",
    shown=2_000,
    multiplications=multiplications,
)

"""Class-specific numbering (the paper's first experiment)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from .. import baselines, equivariance
from ..baselines.set_to_set import PositionalEncoding
from ..constraints import Simplex
from ..costs import COSTS
from ..data.synthetic import mixed_seed, numbering
from ..encoders import SetEncoder
from ..equivariance import Report
from ..matching import hungarian_loss
from ..metrics import element_accuracies, exact_matches
from ..recipes import recipe
from ..solution import Trace
from ..solvers import Nesterov
from ..views.numbers import NumbersView, wrong_numbers
from ..views.view import Examples
from .experiment import Batch, Chunks, Experiment
from .parts import decoder_multiplications, encoder_multiplications, make_decoder
from .settings import NetSettings, OptimSettings, Settings, restarts
from .task import Task


@dataclass
class NumberingData:
    """Sets of elements that belong to classes.

    Attributes:
        n: elements per set.
        classes: number of classes.
        per_example: draw this many classes for each example first; none uses all classes.
        train: training examples.
        val: validation examples, which choose the weights.
        test: test examples.
        augment: permute the inputs of every training batch.
    """

    n: int = 64
    classes: int = 4
    per_example: int | None = 4
    train: int = 640
    val: int = 6_400
    test: int = 64_000
    augment: bool = False


@dataclass
class NumberingSettings(Settings):
    task: str = "numbering"
    solver: dict[str, Any] = field(default_factory=lambda: recipe(Nesterov(steps=20, clip=40.0)))
    constraint: dict[str, Any] | None = field(default_factory=lambda: recipe(Simplex()))
    net: NetSettings = field(default_factory=lambda: NetSettings(hidden=256, latent=256))
    optim: OptimSettings = field(default_factory=lambda: OptimSettings(steps=50_000))
    data: NumberingData = field(default_factory=NumberingData)


DSPN = {
    "solver": "GradientDescent",
    "solver.lr": 1.0,  # a longer step makes different elements equal, and they cannot be unrolled apart
    "solver.clip": None,
    "adjoint": "Unrolled",
    "init.projected": False,
}
MODELS: dict[str, dict[str, Any]] = {
    "idspn": {},
    "dspn": DSPN,
    "idspn-sum": {"net.pool": "sum"},
    "idspn-mean": {"net.pool": "mean"},
    "deepsets": {},
    "transformer": {"net.hidden": 64},
    "transformer-random-pe": {"net.hidden": 64},
    "transformer-pe": {"net.hidden": 64},
    "transformer-pe-both": {"net.hidden": 64},
    "bilstm": {"net.hidden": 64},
}
POSITIONS: dict[str, PositionalEncoding] = {
    "transformer": "none",
    "transformer-random-pe": "random",
    "transformer-pe": "sinusoidal",
    "transformer-pe-both": "both",
}
BASELINES = ("deepsets", "bilstm", *POSITIONS)
CHECKED = 8
"""Sets on which a model is checked."""

SMALL = {"data.n": 12, "data.train": 160, "data.val": 1_000, "data.test": 4_000, "trainer.round": 250}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": SMALL | {"optim.steps": 3_000},
    "quick": SMALL | {"data.n": 8, "optim.steps": 2_000},
}


def best(settings: NumberingSettings) -> dict[str, Any]:
    """See docs/beyond.md. The more elements there are, the less each counts in the encoding, and in its gradient."""
    return {
        "solver.lr": 300 * settings.data.n / 64,
        "adjoint.straight": True,
        "optim.lr": 5e-3,
        "optim.schedule": "cosine",
        **restarts(settings.solver["steps"]),
    }


class Numbering(Experiment):
    """Give equal elements different numbers; judged by the fraction of sets in which every number is right."""

    monitor = "accuracy"

    def __init__(self, settings: NumberingSettings):
        super().__init__()
        self.settings = settings
        self.model = Numberer(settings) if settings.model not in BASELINES else make_baseline(settings)
        self.cost = settings.optim.loss or ("cross_entropy" if settings.model in BASELINES else "euclidean")

    def split(self, name: str) -> Batch:
        data, seed = self.settings.data, self.settings.seed
        count, which = {"train": (data.train, 1), "val": (data.val, 2), "test": (data.test, 3)}[name]
        return numbering(count, data.n, data.classes, mixed_seed(seed, which), data.per_example)

    def augment(self, batch: Batch) -> Batch:
        if not self.settings.data.augment:
            return batch
        order = torch.rand(batch[0].shape[:2], device=batch[0].device).argsort(dim=1)
        return tuple(torch.take_along_dim(t, order.unsqueeze(-1), dim=1) for t in batch)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.model(inputs)

    def loss(self, batch: Batch) -> Tensor:
        return self.losses(self(batch[0]), batch).mean()

    def losses(self, sets: Tensor, batch: Batch) -> Tensor:
        inputs, target = batch
        return hungarian_loss(sets, target, cost=self.cost, same_class=inputs.argmax(dim=-1))

    def judge(self, batch: Batch) -> dict[str, Tensor]:
        inputs, target = batch
        prediction, classes = self(inputs), inputs.argmax(dim=-1)
        return {
            "loss": self.losses(prediction, batch),
            "accuracy": exact_matches(prediction, target, same_class=classes).to(prediction.dtype),
            "element_accuracy": element_accuracies(prediction, target, same_class=classes),
        }

    def trace(self, batch: Batch, steps: int) -> Trace | None:
        """Of the numbers, as they are predicted."""
        return self.model.trace(batch[0], steps) if isinstance(self.model, Numberer) else None

    def examples(self) -> Examples:
        """The classes of the elements, their numbers and the predicted ones, and how many of these are wrong."""
        batch = self.split("test")
        inputs, target = (t.argmax(dim=-1) for t in batch)
        predicted = torch.cat([self.sets(chunk).argmax(dim=-1) for chunk in Chunks(batch, 256)])
        wrong = torch.stack([wrong_numbers(c, p).sum() for c, p in zip(inputs, predicted, strict=True)])
        return Examples(inputs, target, predicted, wrong)

    def check(self) -> Report:
        """The model as a function of its input set, and of its noise where it has any."""
        model = self.model
        inputs = self.split("test")[0][:CHECKED].to(next(self.parameters()))
        if isinstance(model, Numberer):

            def number(sets: Tensor, noise: Tensor) -> Tensor:
                with torch.no_grad():
                    return model(sets, init=0.1 * noise)

            return equivariance.check(number, inputs, noise_dim=inputs.shape[1], noise="joint")
        if isinstance(model, baselines.Transformer) and model.pe == "random":
            return equivariance.check(
                lambda x, noise: model(x, noise=noise), inputs, noise_dim=model.noise_dim, noise="fixed"
            )
        return equivariance.check(model, inputs)


class Numberer(nn.Module):
    """Decode the numbers of a set whose classes are known: `[batch, n, classes]` → `[batch, n, n]`."""

    given: Tensor

    def __init__(self, settings: NumberingSettings):
        super().__init__()
        n, classes, net = settings.data.n, settings.data.classes, settings.net
        self.classes, dim = classes, classes + n
        self.encoder = SetEncoder(classes, net.hidden, net.latent, n)
        self.decoder = make_decoder(settings, n, dim, known=classes)
        self.register_buffer("given", torch.arange(dim) < classes, persistent=False)

    def forward(self, inputs: Tensor, init: Tensor | None = None) -> Tensor:
        """`init` are the initial numbers, `[batch, n, n]`, instead of random ones."""
        if init is not None:
            init = torch.cat([inputs, init], dim=-1)
        return self.decoder(self.encoder(inputs), known=self._known(inputs), init=init)[..., self.classes :]

    def trace(self, inputs: Tensor, steps: int) -> Trace:
        """The iterates of the numbers, `[steps + 1, batch, n, n]`; what is decoded comes last."""
        found = self.decoder.solve(self.encoder(inputs), known=self._known(inputs), steps=steps, trace=True).trace
        assert found is not None
        return replace(found, sets=found.sets[..., self.classes :])

    def _known(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        values = torch.cat([inputs, inputs.new_zeros(*inputs.shape[:2], self.decoder.dim - self.classes)], dim=-1)
        return values, self.given


def make_baseline(settings: NumberingSettings) -> nn.Module:
    name, hidden, classes, n = settings.model, settings.net.hidden, settings.data.classes, settings.data.n
    if name == "deepsets":
        return baselines.DeepSets(classes, n, hidden)
    if name == "bilstm":
        return baselines.BiLSTM(classes, n, hidden)
    return baselines.Transformer(classes, n, POSITIONS[name], hidden)


def problem(settings: NumberingSettings) -> str:
    data = settings.data
    return f"{data.n} elements of {data.classes} classes, {data.train:,} training examples"


def multiplications(flat: Mapping[str, Any]) -> float:
    n, classes, hidden, model = flat["data.n"], flat["data.classes"], flat["net.hidden"], flat["model"]
    if model == "deepsets":
        return n * hidden * (n + classes)
    if model == "bilstm":
        return n * 100 * hidden**2
    if model in POSITIONS:
        return n * (150 * hidden**2 + 40 * n * hidden)
    return encoder_multiplications(flat, n, classes) + decoder_multiplications(flat, n, n + classes)


TASK = Task(
    NumberingSettings,
    Numbering,
    MODELS,
    PRESETS,
    best,
    without_decoder=BASELINES,
    rivals=lambda settings: ("idspn", "dspn", *BASELINES),
    problem=problem,
    goal="Every element belongs to a class. Number the elements of each class 0, 1, 2, …, so that equal elements get "
    "different answers.",
    metric="accuracy",
    meaning="the fraction of test sets in which every number is right",
    achievement="numbers {} of the sets right",
    lower_is_better=False,
    remark=(
        "a set counts only if every element is right, so a model that cannot tell equal elements apart stays at zero."
    ),
    losses=tuple(COSTS),
    baselines_differ="on cross-entropy",
    view=NumbersView(),
    shown=2_000,
    multiplications=multiplications,
)

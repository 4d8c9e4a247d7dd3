"""Settings of a run: typed, changed by `key=value`, written whole to the run's `config.yaml`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import UsageError

NAMES = ("task", "model", "preset", "seed")
"""What a run is called by; the rest is what it does."""
NUMBER = re.compile(r"\d+(\.\d*)?([eE][-+]?\d+)?")


@dataclass
class SolverSettings:
    """How the inner optimisation moves: `nesterov`, `gradient-descent`, or a class of torch.optim such as `Adam`.

    With a `schedule` the iterations change over training (see `iterations_at`), and `steps` are those of evaluation.
    `settle` takes the last step without momentum.
    """

    name: str = "nesterov"
    steps: int = 10
    eval_steps: int | None = None
    schedule: str | None = None
    lr: float = 1.0
    momentum: float = 0.9
    settle: bool = False
    clip: float | None = None
    tol: float | None = None
    exact_steps: int | None = None


@dataclass
class AdjointSettings:
    """How gradients come back: `identity`, `conjugate-gradient` or `unrolled`.

    With `straight`, identity goes straight through the constraint.
    """

    name: str = "identity"
    straight: bool = False
    steps: int = 10
    gamma: float | None = None


@dataclass
class InitSettings:
    """Where the inner optimisation starts: `random`, `learned`, `guessed` from z, or `zero`."""

    name: str = "random"
    std: float = 0.1
    weight: float = 0.1


@dataclass
class RestartSettings:
    """Which `share` of the examples, those of the largest inner loss, evaluation starts again; None starts all once."""

    share: float | None = None
    std: float = 0.5


@dataclass
class NetSettings:
    """Widths of the networks, and the pooling of the inner encoder."""

    hidden: int = 512
    latent: int = 512
    pool: str = "fs"
    relation: bool = False
    constraint: str | None = None


@dataclass
class ImageModelSettings(NetSettings):
    """`width` is that of the image encoder; 64 is a ResNet-18."""

    width: int = 64


@dataclass
class OptimSettings:
    """The outer optimisation: Adam.

    `schedule` of its step size: `constant`, `cosine`, `drop` (a tenth for the last tenth of the steps), or `halving`
    (a warm-up, then half as long every 50,000 steps). `start` is a run folder whose weights training begins with.
    """

    lr: float = 1e-3
    batch: int = 128
    steps: int = 20_000
    schedule: str = "constant"
    start: str | None = None


@dataclass
class ImageOptimSettings(OptimSettings):
    """`sets_first` is the share of the steps, the first ones, in which the decoder learns alone, from the true sets."""

    sets_first: float = 0.0


@dataclass
class TrainerSettings:
    """What Lightning needs to know; `round` is how many steps lie between evaluations and checkpoints."""

    round: int = 500
    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    precision: str = "32-true"
    patience: int | None = None
    logger: str | None = "tensorboard"


@dataclass
class Settings:
    """Everything needed to run again; each task adds its `data`."""

    task: str = ""
    model: str = "idspn"
    preset: str = "small"
    seed: int = 0
    solver: SolverSettings = field(default_factory=SolverSettings)
    adjoint: AdjointSettings = field(default_factory=AdjointSettings)
    init: InitSettings = field(default_factory=InitSettings)
    restart: RestartSettings = field(default_factory=RestartSettings)
    net: NetSettings = field(default_factory=NetSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    trainer: TrainerSettings = field(default_factory=TrainerSettings)
    data: Any = None


def changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """`settings` with dotted keys replaced.

    >>> changed(Settings(), {"solver.steps": 40}).solver.steps
    40
    """
    config = OmegaConf.structured(settings)
    known = list(flatten(to_dict(settings)))
    for key, value in changes.items():
        _set(config, key, value, known)
    made: Any = OmegaConf.to_object(config)
    _check_ranges(made)
    return made


def parse_overrides(words: Iterable[str]) -> dict[str, Any]:
    """`key=value` words as dotted keys and what they stand for; `changed` makes numbers of the text where they belong.

    >>> parse_overrides(["solver.steps=40", "net.pool=sum", "solver.clip=none"])
    {'solver.steps': '40', 'net.pool': 'sum', 'solver.clip': None}
    """
    overrides = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise UsageError(f"{word!r} is not a setting: write key=value, such as solver.steps=40")
        if key in overrides:
            raise UsageError(f"{key} is given twice: write it once")
        overrides[key] = _or_none(text)
    return overrides


def to_dict(settings: Settings) -> dict[str, Any]:
    """Plain dictionaries and numbers, for YAML."""
    return OmegaConf.to_container(OmegaConf.structured(settings))  # type: ignore[return-value]


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def _or_none(value: Any) -> Any:
    """The word as people write it is the value."""
    return None if isinstance(value, str) and value.lower() == "none" else value


def _set(config: DictConfig, key: str, value: Any, known: Sequence[str]) -> None:
    if key not in known:
        near = get_close_matches(key, known, n=1, cutoff=0.5) or get_close_matches(
            key.split(".")[-1], known, n=1, cutoff=0.3
        )
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise UsageError(f"unknown setting {key!r}: {hint}")
    value = _or_none(value)
    if "${" in str(value):  # OmegaConf would look for what it stands for, even among the variables of the system
        raise UsageError(f"{key}={str(value)[:100]!r}: ${{...}} is not filled in, write the value itself")
    try:
        OmegaConf.update(config, key, value)
    except OmegaConfBaseException as error:
        if NUMBER.fullmatch(str(value)) and float(value).is_integer():  # 1e4 is one to the person who wrote it
            OmegaConf.update(config, key, int(float(value)))
            return
        raise UsageError(f"{key}={str(value)[:100]!r}: {str(error).splitlines()[0][:200]}") from None


def _check_ranges(settings: Settings) -> None:
    """Raise where a count is below one, the step size of Adam is negative or no number, or a share is none."""
    counted = ("optim.batch", "optim.steps", "trainer.round", "trainer.devices", "trainer.nodes")
    for key, value in flatten(to_dict(settings)).items():
        count = key in counted or (key.startswith("data.") and type(value) is int)
        if (count or (key == "trainer.patience" and value is not None)) and value < 1:
            raise UsageError(f"{key} is {value}: use 1 or more")
    if not 0 <= settings.optim.lr < float("inf"):
        raise UsageError(f"optim.lr is {settings.optim.lr}: use a number such as 0.001")
    if isinstance(settings.optim, ImageOptimSettings) and not 0 <= settings.optim.sets_first < 1:
        raise UsageError(f"optim.sets_first is {settings.optim.sets_first}: use a share, from 0 to below 1")

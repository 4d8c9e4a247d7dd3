"""Settings of a run: typed, changed by `key=value`, written whole to the run's `config.yaml`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..adjoints import Identity
from ..errors import UsageError
from ..inits import RandomInit
from ..recipes import recipe
from ..solvers import Nesterov
from .parts import PARTS, change_part

NAMES = ("task", "model", "preset", "seed")
"""What a run is called by; the rest is what it does."""
RESTARTED = 0.24
"""The fraction of the examples that our recipes restart."""
NUMBER = re.compile(r"\d+(\.\d*)?([eE][-+]?\d+)?")


@dataclass
class NetSettings:
    """Widths of the networks, and the pooling of the inner encoder: `fs`, `sum`, `mean`, `max`, or a class by name."""

    hidden: int = 512
    latent: int = 512
    pool: str = "fs"
    relation: bool = False


@dataclass
class ImageModelSettings(NetSettings):
    """`width` is that of the image encoder; 64 is a ResNet-18, which may begin with public `weights` from a file."""

    width: int = 64
    weights: str | None = None


@dataclass
class OptimSettings:
    """The outer optimisation: Adam, with decoupled weight decay (AdamW).

    `schedule` of its step size: `constant`, `cosine`, `one-cycle` (cosine after a warm-up), `drop` (a tenth for the
    last tenth of the steps), or `halving` (a warm-up, then half as long every 50,000 steps). `iterations` are those of
    the inner optimisation, where they change over training (see `iterations_at`); `solver.steps` are then those of
    evaluation. `start` is a run folder whose weights training begins with.
    """

    lr: float = 1e-3
    batch: int = 128
    steps: int = 20_000
    schedule: str = "constant"
    weight_decay: float = 0.0
    iterations: str | None = None
    start: str | None = None


@dataclass
class ImageOptimSettings(OptimSettings):
    """`sets_first` is the fraction of the steps, the first ones, in which the decoder learns alone, from true sets."""

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
    """Everything needed to run again; each task adds its `data`. The parts of the decoder are recipes."""

    task: str = ""
    model: str = "idspn"
    preset: str = "small"
    seed: int = 0
    solver: dict[str, Any] = field(default_factory=lambda: recipe(Nesterov()))
    adjoint: dict[str, Any] = field(default_factory=lambda: recipe(Identity()))
    init: dict[str, Any] = field(default_factory=lambda: recipe(RandomInit()))
    constraint: dict[str, Any] | None = None
    restart: dict[str, Any] | None = None
    net: NetSettings = field(default_factory=NetSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    trainer: TrainerSettings = field(default_factory=TrainerSettings)
    data: Any = None


def changed(settings: Settings, *layers: Mapping[str, Any]) -> Settings:
    """`settings` with dotted keys replaced, one layer of changes after the other.

    The name of a part alone is its class, as in `solver=Nesterov solver.steps=40`.

    >>> changed(Settings(), {"solver": "GradientDescent", "solver.steps": 40}).solver["steps"]
    40
    """
    config = OmegaConf.structured(settings)
    known = list(flatten(to_dict(settings)))
    parts = {part: getattr(settings, part) for part in PARTS}
    for changes in layers:
        for part in PARTS:
            own = {key.partition(".")[2] or "class": value for key, value in changes.items() if part_of(key) == part}
            for key, value in own.items():
                _check_value(f"{part}.{key}", value)
            parts[part] = change_part(part, parts[part], own)
    for key, value in {key: value for changes in layers for key, value in changes.items()}.items():
        if part_of(key) is None:
            _set(config, key, value, known)
    made: Any = OmegaConf.to_object(config)
    for part, plain in parts.items():
        setattr(made, part, plain)
    _check_ranges(made)
    return made


def part_of(key: str) -> str | None:
    """The part of the decoder that a key is about, if it is.

    >>> part_of("solver.steps"), part_of("solver"), part_of("net.hidden")
    ('solver', 'solver', None)
    """
    name = key.partition(".")[0]
    return name if name in PARTS else None


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
    """Nested dictionaries as dotted keys; the name of a part alone is its class, and what is inside it stays whole.

    >>> flatten({"seed": 0, "solver": {"class": "Nesterov", "steps": 40}})
    {'seed': 0, 'solver': 'Nesterov', 'solver.steps': 40}
    """
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        if key in PARTS and isinstance(value, Mapping):
            flat[key] = value.get("class")
            flat |= {f"{key}.{name}": inner for name, inner in value.items() if name != "class"}
        else:
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
    _check_value(key, value)
    try:
        OmegaConf.update(config, key, value)
    except OmegaConfBaseException as error:
        if NUMBER.fullmatch(str(value)) and float(value).is_integer():  # 1e4 is one to the person who wrote it
            OmegaConf.update(config, key, int(float(value)))
            return
        raise UsageError(f"{key}={str(value)[:100]!r}: {str(error).splitlines()[0][:200]}") from None


def _check_value(key: str, value: Any) -> None:
    if "${" in str(value):  # OmegaConf would look for what it stands for, even among the variables of the system
        raise UsageError(f"{key}={str(value)[:100]!r}: ${{...}} is not filled in, write the value itself")


def restarts(steps: int) -> dict[str, Any]:
    """Restarts at no more work: with four fifths of the iterations for all, a quarter can make them twice.

    >>> restarts(steps=20)
    {'solver.eval_steps': 16, 'restart': 'Restart', 'restart.fraction': 0.24}
    """
    return {"solver.eval_steps": max(1, steps * 4 // 5), "restart": "Restart", "restart.fraction": RESTARTED}


def _check_ranges(settings: Settings) -> None:
    """Raise where a count is below one, the step size of Adam is negative or no number, or a fraction is none."""
    counted = ("optim.batch", "optim.steps", "trainer.round", "trainer.devices", "trainer.nodes")
    for key, value in flatten(to_dict(settings)).items():
        count = key in counted or (key.startswith(("data.", "net.")) and type(value) is int)
        if (count or (key == "trainer.patience" and value is not None)) and value < 1:
            raise UsageError(f"{key} is {value}: use 1 or more")
    if not 0 <= settings.optim.lr < float("inf"):
        raise UsageError(f"optim.lr is {settings.optim.lr}: use a number such as 0.001")
    if isinstance(settings.optim, ImageOptimSettings) and not 0 <= settings.optim.sets_first < 1:
        raise UsageError(f"optim.sets_first is {settings.optim.sets_first}: use a fraction, from 0 to below 1")

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
from ..values import short
from .parts import PARTS, change_part

NAMES = ("task", "model", "preset", "seed")
"""What a run is called by; the rest is what it does."""
RESTARTED = 0.24
"""The fraction of the examples that our recipes restart."""
MOST = 10**9
"""Above this a count is a mistake."""
MOST_SEED = 2**63 - 1
"""What a generator of random numbers can begin with."""
NUMBER = re.compile(r"\d+(\.\d*)?([eE][-+]?\d+)?")


@dataclass
class NetSettings:
    """The set networks.

    Attributes:
        hidden: width of the hidden layers.
        latent: length of the vector z that a set is decoded from.
        pool: pooling of the inner encoder: fs (sorting, FSPool), sum, mean, max, or the name of a pooling class.
        relation: use a relation network as the inner encoder, which looks at all pairs of elements.
    """

    hidden: int = 512
    latent: int = 512
    pool: str = "fs"
    relation: bool = False


@dataclass
class ImageModelSettings(NetSettings):
    """The set networks, and the network that reads images.

    Attributes:
        width: width of the image encoder, where 64 is a ResNet-18, or of the reader.
        weights: a file of public ResNet-18 weights (safetensors or a state dict, with torchvision's names) that
            training starts from: the image encoder of idspn and its relatives, or the trunk of a reader. Needs
            net.width=64.
    """

    width: int = 64
    weights: str | None = None


@dataclass
class OptimSettings:
    """The outer optimisation: Adam, with decoupled weight decay (AdamW).

    Attributes:
        lr: learning rate of Adam.
        batch: examples per training step.
        steps: training steps.
        schedule: how the learning rate changes: constant, cosine, one-cycle (cosine after a warm-up), drop (a tenth
            for the last tenth of the steps), or halving (a warm-up, then half every 50,000 steps).
        weight_decay: decoupled weight decay, as in AdamW.
        iterations: inner iterations that change over training: 20,40 (first half, second half), 1-40 (evenly) or
            random-20-40 (drawn). Evaluation then uses solver.steps.
        start: a run folder whose weights training starts from.
        loss: what training minimises where it is not the task's own loss: chamfer instead of the Hungarian loss, or in
            numbering another cost of a pair.
        clip: the longest gradient of the weights; none unless given.
        budget: processor seconds of training (on a GPU, seconds). It decides the number of steps, and with it the
            schedule, by the pace of the first ones; the last weights are then the result.
    """

    lr: float = 1e-3
    batch: int = 128
    steps: int = 20_000
    schedule: str = "constant"
    weight_decay: float = 0.0
    iterations: str | None = None
    start: str | None = None
    loss: str | None = None
    clip: float | None = None
    budget: float | None = None

    def sets_come_first(self, step: int) -> bool:
        """Whether in this step of training the decoder learns alone, from the true sets."""
        return False


@dataclass
class ImageOptimSettings(OptimSettings):
    """The outer optimisation of a model with an input encoder.

    Attributes:
        sets_first: the first fraction of the steps, in which the decoder learns alone, from the true sets.
    """

    sets_first: float = 0.0

    def sets_come_first(self, step: int) -> bool:
        return step < self.sets_first * self.steps


@dataclass
class TrainerSettings:
    """What Lightning needs to know.

    Attributes:
        round: steps between two evaluations, each of which writes a checkpoint.
        accelerator: cpu, gpu, mps or auto.
        devices: devices per machine.
        nodes: machines.
        precision: of training, as Lightning names it, such as 32-true or bf16-mixed.
        patience: stop after this many evaluations without a better validation result; only for tasks that validate.
        logger: tensorboard, wandb, mlflow or none. The file metrics.csv is always written.
        memory: gigabytes that a step may take by our estimate. Training on larger sets is refused before it begins.
    """

    round: int = 500
    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    precision: str = "32-true"
    patience: int | None = None
    logger: str | None = "tensorboard"
    memory: float = 8.0


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
    except (OmegaConfBaseException, OverflowError) as error:
        if (
            not isinstance(value, int) and NUMBER.fullmatch(str(value)) and float(value).is_integer()
        ):  # 1e4 is one to the person who wrote it
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
    """Raise where a count is below one, a number of Adam or a limit is negative, too large or no number, or a fraction
    is none."""
    counted = ("optim.batch", "optim.steps", "trainer.round", "trainer.devices", "trainer.nodes")
    for key, value in flatten(to_dict(settings)).items():
        count = key in counted or (key.startswith(("data.", "net.")) and type(value) is int)
        if (count or (key == "trainer.patience" and value is not None)) and value < 1:
            raise UsageError(f"{key} is {value}: use 1 or more")
        if count and value > MOST:
            raise UsageError(f"{key} is {short(value)}: use at most {MOST:,}")
    if not 0 <= settings.seed <= MOST_SEED:
        raise UsageError(f"seed is {short(settings.seed)}: use a whole number from 0 to {MOST_SEED:,}")
    if not 0 <= settings.optim.lr < float("inf"):
        raise UsageError(f"optim.lr is {settings.optim.lr}: use a number such as 0.001")
    if not 0 <= settings.optim.weight_decay < float("inf"):
        raise UsageError(f"optim.weight_decay is {settings.optim.weight_decay}: use 0, or a number such as 0.01")
    if not settings.trainer.memory > 0:
        raise UsageError(f"trainer.memory is {settings.trainer.memory}: use gigabytes, a number above 0")
    for key in ("clip", "budget"):
        value = getattr(settings.optim, key)
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"optim.{key} is {value}: use a number above 0, or none")
    if isinstance(settings.optim, ImageOptimSettings) and not 0 <= settings.optim.sets_first < 1:
        raise UsageError(f"optim.sets_first is {settings.optim.sets_first}: use a fraction, from 0 to below 1")

"""Settings as they were written before parts were recipes: one translation, for old `config.yaml` files and old words.

| before | now |
|---|---|
| `solver.name=nesterov`, `gradient-descent` | `solver=Nesterov`, `GradientDescent` |
| `solver.name=Adam` | `solver=TorchOptimizer solver.optimizer=Adam` |
| `solver.schedule=20,40` | `optim.iterations=20,40` |
| `adjoint.name=identity`, `conjugate-gradient`, `unrolled` | `adjoint=Identity`, `ConjugateGradient`, `Unrolled` |
| `init.name=random`, `learned`, `guessed`, `zero` | `init=RandomInit`, `LearnedInit`, `GuessedInit`, `ZeroInit` |
| `restart.share=0.05`, `restart.share=none` | `restart=Restart restart.fraction=0.05`, `restart=none` |
| `net.constraint=simplex` | `constraint=Simplex` |

Old words on the command line and in Python warn for one version; files are read for good.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from ..recipes import arguments, find_class
from .settings import Settings, flatten

CLASSES = {
    "solver": {"nesterov": "Nesterov", "gradient-descent": "GradientDescent"},
    "adjoint": {"identity": "Identity", "conjugate-gradient": "ConjugateGradient", "unrolled": "Unrolled"},
    "init": {"random": "RandomInit", "learned": "LearnedInit", "guessed": "GuessedInit", "zero": "ZeroInit"},
}

CHANGED = ("slot-attention", "slot-attention-star", "slot-attention-dagger", "slot-mlp")
"""Models whose weights still fit, but which compute something else since they follow the published ones exactly."""


def read_settings(written: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The dotted keys of a `config.yaml`, old or new, for a task with such `settings`.

    >>> from .numbering import NumberingSettings
    >>> old = {"solver": {"name": "gradient-descent", "steps": 5, "momentum": 0.9, "schedule": None}}
    >>> read_settings(old, NumberingSettings())
    {'solver': 'GradientDescent', 'solver.steps': 5, 'optim.iterations': None}
    """
    flat: dict[str, Any] = {}
    for old, value in flatten(written).items():
        flat |= _translated(old, value, settings)
    classes = {part: find_class(str(flat.get(part))) for part in (*CLASSES, "restart") if part in flat}

    def has(key: str) -> bool:
        """Old files hold the settings of all classes of a part."""
        part, _, name = key.partition(".")
        cls = classes.get(part)
        return not name or part not in classes or (cls is not None and name in arguments(cls))

    is_old = any(f"{part}.name" in flatten(written) for part in CLASSES)
    if is_old and written.get("model") in CHANGED:
        warnings.warn(
            f"{written['model']} was changed in version 0.2.0: this run was trained before and predicts otherwise now, "
            "so train it again",
            stacklevel=3,
        )
    return {key: value for key, value in flat.items() if has(key)} if is_old else flat


def renamed(words: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Settings that a person wrote, with a warning for each old spelling."""
    new: dict[str, Any] = {}
    for old, value in words.items():
        found = _translated(old, value, settings)
        if old not in found:
            now = " ".join(f"{key}={str(item).lower() if item is None else item}" for key, item in found.items())
            warnings.warn(f"{old}={value} is now written {now}", FutureWarning, stacklevel=3)
        new |= found
    return new


def _translated(key: str, value: Any, settings: Settings) -> dict[str, Any]:
    """One old key and its value as they are written now; new ones as they are."""
    part, _, name = key.partition(".")
    if part in CLASSES and name == "name":
        if part == "solver" and value not in CLASSES[part]:
            return {"solver": "TorchOptimizer", "solver.optimizer": value}
        return {part: CLASSES[part].get(value, value)}
    if key == "solver.schedule":
        return {"optim.iterations": value}
    if key == "restart.share":
        nothing = value is None or value == "none"
        return {"restart": None} if nothing else {"restart": "Restart", "restart.fraction": value}
    if key == "net.constraint" and not hasattr(settings.net, "constraint"):
        return {"constraint": "Simplex" if value == "simplex" else value}
    return {key: value}

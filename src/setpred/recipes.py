"""Recipes: an object as plain JSON values, the name of its class and the arguments that build it again.

One rule serves all classes: an object holds the arguments of its constructor as attributes of the same names. Only the
classes named here are ever built from a file; what is not among them is marked as the user's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from math import isfinite
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from .errors import UsageError

# Where the classes are; none of these modules needs more than torch.
CLASSES = {
    "setpred.predictor": ("SetPredictor",),
    "setpred.decoder": ("SetDecoder", "iDSPN", "DSPN"),
    "setpred.encoders": ("SetEncoder", "RelationEncoder", "VectorEncoder"),
    "setpred.image_encoder": ("ImageEncoder",),
    "setpred.standardized": ("Standardized",),
    "setpred.pooling": ("FSPool", "SumPool", "MeanPool", "MaxPool"),
    "setpred.solvers": ("GradientDescent", "Nesterov", "TorchOptimizer"),
    "setpred.adjoints": ("Identity", "ConjugateGradient", "Unrolled"),
    "setpred.inits": ("RandomInit", "LearnedInit", "GuessedInit", "ZeroInit"),
    "setpred.constraints": ("Simplex", "Box", "NonNegative", "Ball", "Sphere", "Fields"),
    "setpred.restart": ("Restart",),
    "setpred.schema": ("Schema",),
    "setpred.baselines": ("SlotAttention", "SlotMLP"),
}
MODULES = {name: module for module, names in CLASSES.items() for name in names}


def recipe(thing: Any, where: str = "") -> Any:
    """Plain values that `build` makes the same object of; `where` is its place in the model.

    >>> from setpred import Box, Fields, Nesterov
    >>> recipe(Box(0.0, 1.0))
    {'class': 'Box', 'low': 0.0, 'high': 1.0}
    >>> recipe(Nesterov(lr=lambda t: 0.5), "solver")
    Traceback (most recent call last):
    setpred.errors.UsageError: solver.lr is a function, which cannot be saved: use a number
    """
    if thing is None or isinstance(thing, bool | str):
        return thing
    if isinstance(thing, Integral):
        return int(thing)
    if isinstance(thing, Real):
        return float(thing) if isfinite(thing) else {"class": "float", "name": str(float(thing))}
    if isinstance(thing, list | tuple):
        return [recipe(item, where) for item in thing]
    if isinstance(thing, Mapping):
        pairs = [[recipe(key, where), recipe(value, f"{where}[{key!r}]")] for key, value in thing.items()]
        return {"class": "dict", "items": pairs}
    if isinstance(thing, type) and thing in vars(torch.optim).values():
        return {"class": "torch.optim", "name": thing.__name__}
    if inspect.isroutine(thing):
        raise UsageError(f"{where} is a function, which cannot be saved: use a number")
    if isinstance(thing, type | Tensor):
        raise UsageError(f"{where} is {_kind(thing)}, which cannot be saved: use plain numbers or a part of setpred")
    name = type(thing).__name__
    if name not in MODULES or _find(name) is not type(thing):
        return {"class": "own", "name": name}
    if hasattr(thing, "to_dict"):
        return {"class": name, **thing.to_dict()}
    return {"class": name, **{key: recipe(getattr(thing, key), _inside(where, key)) for key in _arguments(type(thing))}}


def build(plain: Any, where: str = "", **parts: Any) -> Any:
    """The object of a recipe, with some arguments replaced by `parts`; anything else is refused with a sentence.

    >>> build({"class": "Box", "low": 0.0, "high": 1.0})
    Box(low=0.0, high=1.0)
    >>> build({"class": "system"})
    Traceback (most recent call last):
    setpred.errors.UsageError: the model is of the class 'system', which setpred does not have: is it one of its files?
    """
    if isinstance(plain, list):
        return [build(item, where) for item in plain]
    if not isinstance(plain, dict):
        return plain
    arguments = dict(plain)
    name = arguments.pop("class", None)
    try:
        if name == "dict":
            return {_key(key): build(value, where) for key, value in arguments["items"]}
        if name == "float":
            return float(arguments["name"])
        if name == "torch.optim":
            return _optimizer(arguments["name"])
        if name == "own":
            raise UsageError(
                f"{where} is {arguments['name']}, a class of your own: build it as it was and pass it as "
                f"{where.split('.')[0]}= to from_pretrained"
            )
        if not isinstance(name, str) or name not in MODULES:
            raise UsageError(
                f"{where or 'the model'} is of the class {str(name)[:100]!r}, which setpred does not have: "
                "is it one of its files?"
            )
        cls = _find(name)
        if hasattr(cls, "from_dict"):
            return cls.from_dict(arguments)
        made = {key: build(value, _inside(where, key)) for key, value in arguments.items() if key not in parts}
        return cls(**_unfolded(cls, {**made, **parts}))
    except UsageError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError, ArithmeticError) as error:
        reason = str(error).splitlines()[0][:200]
        raise UsageError(f"{where or 'the model'} cannot be built: {reason}") from None


@cache
def _find(name: str) -> type:
    return getattr(import_module(MODULES[name]), name)


def _arguments(cls: type) -> list[str]:
    if is_dataclass(cls):
        return [f.name for f in fields(cls)]
    # A module without a constructor has torch's, which takes *args and **kwargs but nothing in them.
    return [p.name for p in inspect.signature(cls).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]


def _unfolded(cls: type, made: dict[str, Any]) -> dict[str, Any]:
    """The arguments as they are passed: what a class takes as **options is held as a dictionary of that name."""
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and parameter.name in made:
            return {**made.pop(parameter.name), **made}
    return made


def _optimizer(name: str) -> type[torch.optim.Optimizer]:
    found = getattr(torch.optim, name)
    if not (isinstance(found, type) and issubclass(found, torch.optim.Optimizer)):
        raise ValueError(f"torch.optim.{name} is not an optimiser")
    return found


def _inside(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _key(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _kind(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"of type {type(thing).__name__}"

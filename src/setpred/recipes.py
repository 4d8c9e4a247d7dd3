"""Recipes: an object as plain JSON values, the name of its class and the arguments that build it again.

A recipe is the one description of an object: in saved models, in `config.yaml`, and behind key=value on the command
line. One rule serves all classes: an object holds the arguments of its constructor as attributes of the same names.
Only public classes, and the baselines, are ever built from a file; any other is marked as the user's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import import_module
from math import isfinite, isnan
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from . import PUBLIC
from .errors import UsageError
from .notices import CLASSES as RENAMED
from .notices import warn_renamed
from .values import short

LARGEST = torch.finfo(torch.float32).max
"""Numbers beyond this are infinite in most models."""
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", NoneType: "none"}


def recipe(thing: Any, where: str = "") -> Any:
    """Plain values that `build` makes the same object of; `where` is its place in the model.

    >>> from setpred import Box, PerSlice, Nesterov
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
    if find_class(name) is not type(thing):
        return {"class": "own", "name": name}
    if hasattr(thing, "to_dict"):
        return {"class": name, **thing.to_dict()}
    return {"class": name, **{key: recipe(getattr(thing, key), _inside(where, key)) for key in arguments(type(thing))}}


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
    given = dict(plain)
    name = _current(given.pop("class", None))
    try:
        if name == "dict":
            return {_key(key): build(value, where) for key, value in given["items"]}
        if name == "float":
            return float(given["name"])
        if name == "torch.optim":
            return _optimizer(given["name"])
        if name == "own":
            raise UsageError(
                f"{where} is {given['name']}, a class of your own: build it as it was and pass it as "
                f"{where.split('.')[0]}= to from_pretrained"
            )
        cls = find_class(name) if isinstance(name, str) else None
        if cls is None:
            raise UsageError(
                f"{where or 'the model'} is of the class {str(name)[:100]!r}, which setpred does not have: "
                "is it one of its files?"
            )
        if hasattr(cls, "from_dict"):
            return cls.from_dict(given)
        made = {key: build(value, _inside(where, key)) for key, value in given.items() if key not in parts}
        _check_types(cls, made, where)
        return cls(**_unfolded(cls, {**made, **parts}))
    except UsageError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError, ArithmeticError) as error:
        reason = str(error).splitlines()[0][:200]
        raise UsageError(f"{where or 'the model'} cannot be built: {reason}") from None


def find_class(name: str) -> type | None:
    """The public class or baseline of that name, or None."""
    module = PUBLIC.get(name)
    try:
        found = getattr(import_module(module or ".baselines", __package__), name, None)
    except ImportError:  # what judges needs more than torch, and is no part of a model
        return None
    return found if isinstance(found, type) else None


def classes_of(kind: type, room: str = "") -> dict[str, type]:
    """The public classes of a kind of part, by name; those that are only there to be derived from are left out.

    With a `room`, such as `.schema`, only what is in there is looked at, and nothing else is loaded.

    >>> from setpred import Solver
    >>> [name for name in ("Nesterov", "Solver", "Box") if name in classes_of(Solver)]
    ['Nesterov']
    """
    named = {name: find_class(name) for name, module in PUBLIC.items() if module.startswith(room)}
    found = {name: cls for name, cls in named.items() if cls is not None and issubclass(cls, kind)}
    bases = {base for cls in found.values() for base in cls.__mro__[1:]}
    return {name: cls for name, cls in found.items() if cls not in bases}


@dataclass(frozen=True)
class Argument:
    """Of a constructor: its type, and its default as a recipe; an argument without one is `required`."""

    hint: Any
    default: Any = None
    required: bool = False


def arguments(cls: type) -> dict[str, Argument]:
    """What a constructor takes.

    >>> from setpred import ConjugateGradient
    >>> arguments(ConjugateGradient)["steps"]
    Argument(hint=<class 'int'>, default=10, required=False)
    """
    if is_dataclass(cls):
        hints = get_type_hints(cls)
        found = {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(cls)}
    else:
        hints = get_type_hints(cls.__init__)  # type: ignore[misc]
        # A module without a constructor has torch's, which takes *args and **kwargs but nothing in them.
        parameters = inspect.signature(cls).parameters.values()
        found = {
            p.name: MISSING if p.default is p.empty else p.default
            for p in parameters
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        }
    return {
        name: Argument(hints.get(name, Any), None if default is MISSING else recipe(default, name), default is MISSING)
        for name, default in found.items()
    }


def kinds(hint: Any) -> tuple[Any, ...]:
    """The types that an annotation allows.

    >>> kinds(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    union = get_origin(hint) in (Union, UnionType)
    return tuple(kind for part in get_args(hint) for kind in kinds(part)) if union else (hint,)


def wanted(hint: Any) -> str:
    """What a person should write for an argument of this type.

    >>> wanted(float | None)
    'a number or none'
    """
    known = [WORDS.get(kind, f"a {kind.__name__}") for kind in kinds(hint) if isinstance(kind, type)]
    return " or ".join(known)


def _check_types(cls: type, made: Mapping[str, Any], where: str) -> None:
    """Raise where a value of a file is of another type than the constructor's argument, which might fail much later."""
    known = arguments(cls)
    for name, value in made.items():
        if name in known and not any(_is(value, kind) for kind in kinds(known[name].hint)):
            raise UsageError(f"{_inside(where, name)} is {short(value)}: it must be {wanted(known[name].hint)}")


def _is(value: Any, kind: Any) -> bool:
    """Whether a value from a file is of a type; whole numbers are numbers, and lists may stand for tuples."""
    kind = get_origin(kind) or kind
    if kind is Any:
        return True
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool) and not isnan(value) and fits(value)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool) and fits(value)
    if kind is tuple:
        return isinstance(value, list | tuple)
    if kind is Callable:  # functions are not kept in files
        return False
    return isinstance(value, kind) if isinstance(kind, type) else True


def fits(number: Any) -> bool:
    """Whether a number is infinite or one that 32 bits can hold.

    >>> fits(1e30), fits(1e300)
    (True, False)
    """
    return bool(abs(number) <= LARGEST or number in (float("inf"), -float("inf")))


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


def _current(name: Any) -> Any:
    """The name of a class that may have had another one when the file was written."""
    if not isinstance(name, str) or name not in RENAMED:
        return name
    warn_renamed(name, RENAMED[name], stacklevel=3)
    return RENAMED[name]


def _inside(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _key(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _kind(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"of type {type(thing).__name__}"

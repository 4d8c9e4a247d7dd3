"""Notices to people: old names that still work for one version say so, and other libraries keep quiet."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

CLASSES = {"Fields": "PerSlice"}
"""Old names of public classes, in code and in saved models, and what they are called now."""

T = TypeVar("T", bound=type)


def warn_renamed(old: str, new: str, stacklevel: int = 2) -> None:
    """Say that `old` is called `new` now; `stacklevel` counts from the caller, as in `warnings.warn`."""
    warnings.warn(
        f"{old} is called {new} now: the old name goes with the next version", DeprecationWarning, stacklevel + 1
    )


def renamed_arguments(**names: str) -> Callable[[T], T]:
    """A class decorator: these arguments of the constructor, which are attributes too, go by another name now.

    >>> @renamed_arguments(share="weight")
    ... class Part:
    ...     def __init__(self, weight=1.0):
    ...         self.weight = weight
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Part(share=2.0).weight, str(caught[0].message)
    (2.0, 'Part(share=) is called weight now: the old name goes with the next version')
    """

    def decorate(cls: T) -> T:
        construct = cls.__init__  # type: ignore[misc]

        @wraps(construct)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            for old, new in names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{cls.__name__} got {new} and {old}, its old name: pass {new}")
                    warn_renamed(f"{cls.__name__}({old}=)", new)
                    kwargs[new] = kwargs.pop(old)
            construct(self, *args, **kwargs)

        cls.__init__ = init  # type: ignore[misc]
        cls.old_arguments = names  # type: ignore[attr-defined]
        for old, new in names.items():
            setattr(cls, old, renamed_property(old, new))
        return cls

    return decorate


def renamed_property(old: str, new: str) -> property:
    """Reads the attribute `new`, and warns."""

    def get(self: Any) -> Any:
        warn_renamed(f"{type(self).__name__}.{old}", new)
        return getattr(self, new)

    return property(get, doc=f"The old name of `{new}`.")


def moved(old: str, new: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that moved: its names come from the new place, with a warning."""

    def get(name: str) -> Any:
        if name.startswith("__"):  # the import system looks for some
            raise AttributeError(name)
        found = getattr(import_module(new), name)
        warnings.warn(f"{old} is now {new}: import {name} from there", DeprecationWarning, 2)
        return found

    return get


@contextmanager
def quiet(*loggers: str, warned_by: str = "") -> Iterator[None]:
    """Hear only errors of these loggers, and no warnings from modules whose names begin like that."""
    named = [logging.getLogger(name) for name in loggers]
    levels = [logger.level for logger in named]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=warned_by)
        for logger in named:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(named, levels, strict=True):
                logger.setLevel(level)

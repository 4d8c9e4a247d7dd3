"""Values that come from files: brought to plain numbers, checked, and shown in errors."""

from __future__ import annotations

import math
import reprlib
from typing import Any

# Limits at every level: the whole repr of a nested value can be far larger than the file it came from.
_REPR = reprlib.Repr()
_REPR.maxlevel = 3
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 56


def plain(value: Any) -> Any:
    """Arrays, tensors and their scalars as Python's own numbers and lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def finite(value: Any) -> float:
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{short(value)} is not a number: correct it")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{number} is not finite: correct it or leave the object out")
    return number


def check_pair(name: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{name} is {short(value)}: give two numbers")
    return check_finite(name, value[0]), check_finite(name, value[1])


def check_finite(name: str, value: Any) -> float:
    try:
        return finite(value)
    except ValueError:
        raise ValueError(f"{name} holds {short(value)}: use finite numbers") from None


def keep_positive(field: Any, *names: str) -> None:
    """Make the named arguments of a frozen field plain numbers, or raise; they are written to files as they are."""
    for name in names:
        value = getattr(field, name)
        number = check_finite(name, value)
        if number <= 0:
            raise ValueError(f"{name} is {short(value)}: use a number above 0")
        object.__setattr__(field, name, number)


def check_whole(name: str, value: Any, largest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
        raise ValueError(f"{name} is {short(value)}: use a whole number from 1 to {largest}")


def short(value: Any) -> str:
    """`repr`, kept to one short line whatever a file may hold.

    >>> short("x" * 1000)
    "'xxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxx'"
    """
    try:
        text = _REPR.repr(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__} too large to print"
    return text if len(text) <= 60 else f"{text[:57]}..."


def listing(names: tuple[str | int, ...]) -> str:
    shown = ", ".join(short(name) for name in names[:12])
    return shown if len(names) <= 12 else f"{shown} … ({len(names)} in all)"

"""Values that come from files: read as YAML, brought to plain numbers, checked, and shown in errors."""

from __future__ import annotations

import json
import math
import reprlib
from typing import Any

# Limits at every level: the whole repr of a nested value can be far larger than the file it came from.
_REPR = reprlib.Repr()
_REPR.maxlevel = 3
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 56


# How deep the values of a YAML file may be nested.
DEPTH = 8


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


def check_text(value: Any) -> None:
    """Raise where a text holds half a character, which JSON and YAML can write and no file can hold.

    >>> check_text(["a", {"b": "\\ud83d"}])
    Traceback (most recent call last):
    ValueError: half a character (\\ud83d) cannot be kept: write the whole one
    """
    try:
        json.dumps(value, ensure_ascii=False, skipkeys=True, default=str).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):x}"
        raise ValueError(f"half a character ({half}) cannot be kept: write the whole one") from None


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


def read_json(text: bytes) -> Any:
    """The values in a JSON text from anywhere; anything else is a `ValueError`.

    >>> read_json(b'{"size": 3}')
    {'size': 3}
    >>> read_json(b"[1, 2")
    Traceback (most recent call last):
    ValueError: not JSON (Expecting ',' delimiter): correct it
    """
    try:
        values = json.loads(text.decode("utf-8-sig"))  # the mark that some editors put first
    except RecursionError:
        raise ValueError("not JSON (nested too deeply): make it flat") from None
    except ValueError as error:
        reason = getattr(error, "msg", "not valid text or numbers")
        raise ValueError(f"not JSON ({reason}): correct it") from None
    if b"\\u" in text:
        check_text(values)
    return values


def read_yaml(text: bytes | str) -> Any:
    """The values in a YAML text from anywhere; anything that is not plain values is a `ValueError`.

    >>> read_yaml("size: 3")
    {'size': 3}
    >>> read_yaml("[1, 2")
    Traceback (most recent call last):
    ValueError: line 1: not YAML (expected ',' or ']', but got '<stream end>'): correct it
    """
    import yaml

    try:
        # A few lines of aliases or brackets can cost gigabytes or minutes, so they are refused first.
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > DEPTH:
                raise yaml.MarkedYAMLError(problem="aliases or deep nesting", problem_mark=event.start_mark)
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark is not None else ""
        reason = " ".join((getattr(error, "problem", None) or "wrong characters").split())
        raise ValueError(f"{place}not YAML ({reason}): correct it") from None
    except (TypeError, LookupError, AttributeError, ValueError) as error:
        # PyYAML lets these through for tagged values, dates and numbers that it cannot make.
        raise ValueError(f"not YAML ({type(error).__name__} in a value): write plain values") from None
    check_text(values)
    return values

"""Schemas as plain dictionaries, as they stand in schema.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from .attributes import Category, Count, Flag
from .continuous import Angle, Real
from .field import Field
from .values import short

KINDS: dict[str, type[Field]] = {
    "real": Real,
    "category": Category,
    "flag": Flag,
    "count": Count,
    "angle": Angle,
}


def field_to_dict(field: Field) -> dict[str, Any]:
    """Plain values only; what is at its default is left out.

    >>> field_to_dict(Real(3, range=(-1, 1)))
    {'type': 'real', 'dim': 3, 'range': [-1.0, 1.0]}
    """
    kind = next(name for name, cls in KINDS.items() if type(field) is cls)
    plain: dict[str, Any] = {"type": kind}
    for entry in fields(field):  # type: ignore[arg-type]
        value = getattr(field, entry.name)
        default = 1.0 if entry.name == "share" else entry.default
        if default is MISSING or value != default:
            plain[entry.name] = list(value) if isinstance(value, tuple) else value
    return plain


def field_from_dict(plain: Any) -> Field:
    """The field that `field_to_dict` wrote.

    >>> field_from_dict({"type": "count", "maximum": 3})
    Traceback (most recent call last):
    ValueError: unknown key 'maximum': a count has max, share
    """
    if not isinstance(plain, Mapping) or "type" not in plain:
        raise ValueError(f"{short(plain)} has no type: use one of {', '.join(KINDS)}")
    kind = plain["type"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"type {short(kind)} is unknown: use one of {', '.join(KINDS)}")
    cls = KINDS[kind]
    names = [entry.name for entry in fields(cls)]  # type: ignore[arg-type]
    arguments = {key: value for key, value in plain.items() if key != "type"}
    for key in arguments:
        if key not in names:
            raise ValueError(f"unknown key {short(key)}: a {kind} has {', '.join(names)}")
    if cls is Category:
        values = arguments.pop("names", None)
        if not isinstance(values, list | tuple):
            raise ValueError(f"names is {short(values)}: list the values of the category")
        return Category(*values, **arguments)
    if cls is Count and "max" not in arguments:
        raise ValueError("a count has no max: add the largest value")
    return cls(**arguments)


def arguments_from_dict(plain: Any) -> dict[str, Any]:
    """The arguments of `Schema` in a dictionary that anybody may have written."""
    if not isinstance(plain, Mapping):
        raise ValueError(f"the schema is {short(plain)}: give it the keys size and fields")
    for key in plain:
        if key not in ("size", "presence", "position", "fields"):
            raise ValueError(f"the schema has the unknown key {short(key)}: use size, presence, position, fields")
    for key in ("size", "fields"):
        if key not in plain:
            raise ValueError(f"the schema has no {key}: add it")
    if not isinstance(plain["fields"], Mapping):
        raise ValueError(f"fields is {short(plain['fields'])}: give each field by name")
    parsed = {}
    for name, value in plain["fields"].items():
        try:
            parsed[name] = field_from_dict(value)
        except ValueError as error:
            raise ValueError(f"fields[{short(name)}]: {error}") from None
    return {**plain, "fields": parsed}

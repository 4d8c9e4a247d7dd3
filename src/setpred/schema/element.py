"""The schema turns objects with named fields into elements of a set, and back."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import isnan
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..recipes import classes_of
from ..values import check_whole, short
from .attributes import Attribute
from .fields import Field, Real
from .layout import Layout

MAX_NUMBERS = 1 << 24


class Schema(Layout):
    """The named fields of an object, in the order of their numbers, and the largest number of objects.

    With `presence`, the last number of an element says whether it is an object (1) or absent (0, like all its other
    numbers), so sets of different sizes need no mask. `position` names the `Real` field whose distance counts in
    metrics; by default it is the first one.

    >>> from setpred.schema import Category, Real
    >>> schema = Schema({"at": Real(2, range=(0, 10)), "kind": Category("cat", "dog")}, size=3)
    >>> schema.dim, schema.slices["kind"]
    (5, slice(2, 4, None))
    >>> sets = schema.encode([{"at": [5, 10], "kind": "dog"}])
    >>> sets
    tensor([[0., 1., 0., 1., 1.],
            [0., 0., 0., 0., 0.],
            [0., 0., 0., 0., 0.]])
    >>> schema.decode(sets)
    [{'at': [5.0, 10.0], 'kind': 'dog', 'confidence': {'presence': 1.0, 'kind': 1.0}}]
    """

    def __init__(
        self, fields: Mapping[str, Field], size: int, presence: bool = True, position: str | None = None
    ) -> None:
        check_whole("size", size, MAX_NUMBERS)
        super().__init__(fields, presence, position)
        self.size = size
        if size * self.dim > MAX_NUMBERS:
            raise ValueError(f"size {size} × {self.dim} numbers per element is too large: lower size or dim")

    def encode(self, objects: Sequence[Mapping[str, Any]]) -> Tensor:
        """The elements [size, dim] of some objects; the remaining elements are zero. Keys without a field are
        ignored."""
        return self.encode_batch([objects])[0][0]

    def encode_batch(self, batch: Iterable[Sequence[Mapping[str, Any]]]) -> tuple[Tensor, Tensor]:
        """The `sets` [batch, size, dim] of lists of objects, and the `mask` [batch, size] of elements that are
        objects."""
        batch = list(batch)
        sets = np.zeros((len(batch), self.size, self.dim), dtype=np.float32)
        mask = np.zeros((len(batch), self.size), dtype=bool)
        for i, objects in enumerate(batch):
            rows, problems = self._rows(objects)
            if problems:
                raise ValueError(f"example {i}, {problems[0]}" if len(batch) > 1 else problems[0])
            if rows:
                sets[i, : len(rows)] = rows
            mask[i, : len(rows)] = True
        return torch.from_numpy(sets), torch.from_numpy(mask)

    def problems(self, objects: Any) -> list[str]:
        """All reasons why `objects` cannot be encoded, one line each.

        >>> Schema({"at": Real()}, size=2).problems([{"at": "left"}, {}])
        ["object 0, field 'at': 'left' is not a number: correct it", "object 1 has no field 'at': add it"]
        """
        return self._rows(objects)[1]

    def _rows(self, objects: Any) -> tuple[list[list[float]], list[str]]:
        if not isinstance(objects, list | tuple):
            return [], [f"objects is {short(objects)}: give a list of objects"]
        rows: list[list[float]] = []
        problems: list[str] = []
        if len(objects) > self.size:
            problems.append(f"has {len(objects)} objects, the schema holds {self.size}: raise its size")
        for i, item in enumerate(objects[: self.size]):
            if not isinstance(item, Mapping):
                problems.append(f"object {i} is {short(item)}: give its fields by name")
                continue
            row: list[float] = []
            for name, field in self.fields.items():
                if name not in item:
                    problems.append(f"object {i} has no field {short(name)}{_advice(name, item)}")
                    continue
                try:
                    row += field.encode(item[name])
                except ValueError as error:
                    problems.append(f"object {i}, field {short(name)}: {error}")
            rows.append([*row, 1.0] if self.presence else row)
        return rows, problems

    def decode(self, elements: Tensor, threshold: float = 0.5) -> list[dict[str, Any]]:
        """The objects that elements [size, dim] stand for, each with its `confidence`.

        Elements whose presence is at least `threshold` are objects; without presence, all elements are. `confidence`
        holds the presence and the confidence in the value of each category, flag and count.
        """
        if elements.dim() != 2:
            raise ValueError(f"decode takes one set [size, dim], this is {list(elements.shape)}: use decode_batch")
        return self.decode_batch(elements[None], threshold)[0]

    def decode_batch(self, sets: Tensor, threshold: float = 0.5) -> list[list[dict[str, Any]]]:
        """One list of objects for each of the sets [batch, size, dim]."""
        sets = self.checked(sets).detach().cpu()
        if isnan(threshold):
            raise ValueError("threshold is not a number: elements whose presence is at least this count as objects")
        if sets.dim() != 3:
            raise ValueError(f"decode_batch takes [batch, size, dim], this is {list(sets.shape)}: use decode for one")
        if not sets.isfinite().all():
            row = int((~sets.isfinite()).any(-1).nonzero()[0, 1])
            raise ValueError(f"element {row} is not finite: did the inner optimisation diverge? lower lr or clip")
        there = sets[..., -1] >= threshold if self.presence else torch.ones(sets.shape[:2], dtype=torch.bool)
        elements = sets[there]  # of all sets at once: a field decodes many rows as fast as one
        parts = {name: elements[:, self.slices[name]] for name in self.fields}
        values = {name: field.decode(parts[name]) for name, field in self.fields.items()}
        sure = {"presence": elements[:, -1].clamp(0, 1).tolist()} if self.presence else {}
        for name, field in self.fields.items():
            if isinstance(field, Attribute):
                sure[name] = field.probability(parts[name]).tolist()
        objects = ({**_row(values, i), "confidence": _row(sure, i)} for i in range(len(elements)))
        return [list(islice(objects, count)) for count in there.sum(1).tolist()]

    @property
    def pixel_fields(self) -> list[str]:
        """The fields that are positions in an image, in pixels of its file."""
        return [name for name, field in self.fields.items() if isinstance(field, Real) and field.pixels]

    def in_pixels(self, pixel: float) -> Schema:
        """The schema of one image, one pixel of which covers the fraction `pixel` of the canvas (see
        `letterbox.pixel_on`).

        Its objects have positions in pixels of the image, and its elements are unchanged. Without fields in pixels, the
        schema itself is returned.
        """
        if not self.pixel_fields:
            return self
        fields = {name: f.in_pixels(pixel) if isinstance(f, Real) else f for name, f in self.fields.items()}
        return Schema(fields, self.size, self.presence, self.position_field)

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain values, for YAML and JSON.

        >>> Schema({"at": Real(2)}, size=3).to_dict()
        {'size': 3, 'presence': True, 'position': 'at', 'fields': {'at': {'type': 'real', 'dim': 2}}}
        """
        for name, field in self.fields.items():
            if type(field) not in kinds().values():
                kind = type(field).__name__
                raise ValueError(f"fields[{short(name)}] is {kind}, a class of your own, which cannot be saved")
        return {
            "size": self.size,
            "presence": self.presence,
            **({"position": self.position_field} if self.position_field is not None else {}),
            "fields": {name: field.to_dict() for name, field in self.fields.items()},
        }

    @classmethod
    def from_dict(cls, plain: Any) -> Schema:
        """The schema of a dictionary, written by `to_dict` or by hand.

        >>> Schema.from_dict({"size": 3, "fields": {"at": {"type": "real", "dim": 2}}}).dim
        3
        """
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
        return cls(**{**plain, "fields": {name: _field(name, value) for name, value in plain["fields"].items()}})

    def __eq__(self, other: object) -> bool:
        # Through lists: the order of the fields is the layout of the element.
        return isinstance(other, Schema) and (
            list(self.fields.items()) == list(other.fields.items())
            and (self.size, self.presence, self.position_field) == (other.size, other.presence, other.position_field)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rest = f"size={self.size}, presence={self.presence}, position={self.position_field!r}"
        return f"Schema({self.fields!r}, {rest})"


def kinds() -> dict[str, type[Field]]:
    """The classes of fields that a schema in a file may have, by their names in files."""
    return {name.lower(): cls for name, cls in classes_of(Field, ".schema").items()}


def _field(name: Any, plain: Any) -> Field:
    try:
        if not isinstance(plain, Mapping) or "type" not in plain:
            raise ValueError(f"{short(plain)} has no type: use one of {', '.join(kinds())}")
        kind = plain["type"]
        if not isinstance(kind, str) or kind not in kinds():
            raise ValueError(f"type {short(kind)} is unknown: use one of {', '.join(kinds())}")
        return kinds()[kind].from_dict(plain)
    except ValueError as error:
        raise ValueError(f"fields[{short(name)}]: {error}") from None


def _advice(name: str, item: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, [key for key in item if isinstance(key, str)], n=1)
    return f": is {short(near[0])} meant?" if near else ": add it"


def _row(columns: Mapping[str, Sequence[Any]], i: int) -> dict[str, Any]:
    return {name: column[i] for name, column in columns.items()}

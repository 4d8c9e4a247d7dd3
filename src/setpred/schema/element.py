"""The schema: which fields an object has, and where each lies in an element."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..constraints import Box, Constraint, Fields
from ..tensors import widest
from .continuous import Real
from .field import Attribute, Field
from .plain import arguments_from_dict, field_to_dict
from .values import check_whole, short

MAX_NUMBERS = 1 << 24
RESERVED = ("presence", "confidence")


class Schema:
    """The fields of an object in the order of their numbers, and the largest set.

    With `presence`, the last number of an element is 1 for an object and 0 for none, and an absent
    element is all zero: sets of different sizes then need no mask. `position` names the `Real` field
    whose distance counts in metrics (the first one unless given).

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
        if not fields:
            raise ValueError("fields is empty: an element needs at least one field")
        for name, field in fields.items():
            if not isinstance(name, str) or name in RESERVED:
                raise ValueError(f"fields has the name {short(name)}: use text other than {' or '.join(RESERVED)}")
            if not isinstance(field, Field):
                raise ValueError(f"fields[{short(name)}] is {short(field)}: use Real, Category, Flag, Count or Angle")
        reals = [name for name, field in fields.items() if isinstance(field, Real)]
        if position is not None and position not in reals:
            raise ValueError(f"position {short(position)} is not a Real field: name one of {reals} or leave it out")
        if not isinstance(presence, bool):
            raise ValueError(f"presence is {short(presence)}: use true or false")
        self.fields = dict(fields)
        self.size = size
        self.presence = presence
        self.position_field = position if position is not None else next(iter(reals), None)
        self.slices: dict[str, slice] = {}
        start = 0
        for name, field in self.fields.items():
            self.slices[name] = slice(start, start + field.dim)
            start += field.dim
        if presence:
            self.slices["presence"] = slice(start, start + 1)
            start += 1
        self.dim = start
        if size * self.dim > MAX_NUMBERS:
            raise ValueError(f"size {size} × {self.dim} numbers an element is too large: lower size or dim")

    def encode(self, objects: Sequence[Mapping[str, Any]]) -> Tensor:
        """Objects to elements [size, dim], the rest zero. Keys that the schema does not name are ignored."""
        return self.encode_batch([objects])[0][0]

    def encode_batch(self, batch: Iterable[Sequence[Mapping[str, Any]]]) -> tuple[Tensor, Tensor]:
        """Lists of objects to `sets` [batch, size, dim] and the `mask` [batch, size] of where objects are."""
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
        """Everything that keeps `objects` from being encoded, one line each.

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
        """Elements [size, dim] to objects, each with its `confidence`.

        An element is an object if its presence reaches `threshold`; without presence all of them are.
        `confidence` holds the presence, and for each category, flag and count how sure its value is.
        """
        if elements.dim() != 2:
            raise ValueError(f"decode takes one set [size, dim], this is {list(elements.shape)}: use decode_batch")
        return self.decode_batch(elements[None], threshold)[0]

    def decode_batch(self, sets: Tensor, threshold: float = 0.5) -> list[list[dict[str, Any]]]:
        """Sets [batch, size, dim] to one list of objects each."""
        sets = self._check(sets).detach().cpu()
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

    def attributes(self, elements: Tensor) -> Tensor:
        """Whole numbers for what must match exactly: [..., dim] -> [..., categories + flags + counts]."""
        elements = self._check(elements)
        ids = [
            field.ids(elements[..., self.slices[name]])
            for name, field in self.fields.items()
            if isinstance(field, Attribute)
        ]
        return torch.stack(ids, -1) if ids else elements.new_zeros((*elements.shape[:-1], 0), dtype=torch.long)

    def position(self, elements: Tensor) -> Tensor:
        """The position field in the units of the data: [..., dim] -> [..., k]; k = 0 without one."""
        elements = self._check(elements)
        if self.position_field is None:
            return elements[..., :0]
        field = self.fields[self.position_field]
        assert isinstance(field, Real)
        return field.restore(widest(elements[..., self.slices[self.position_field]]))

    def confidence(self, elements: Tensor) -> Tensor:
        """What detections are ranked by, the raw presence: [..., dim] -> [...]; 1 without presence."""
        elements = self._check(elements)
        return elements[..., -1] if self.presence else torch.ones_like(elements[..., -1])

    def matches(self, prediction: Tensor, target: Tensor, distance: float = float("inf")) -> Tensor:
        """Where all attributes agree and the positions are within `distance`, in the units of the data.

        The arguments broadcast: [batch, n, 1, dim] with [batch, 1, m, dim] compares all pairs.
        Presence is not looked at.
        """
        same = (self.attributes(prediction) == self.attributes(target)).all(-1)
        apart = (self.position(prediction) - self.position(target)).norm(dim=-1)
        return same & (apart <= distance)

    def closeness(self, prediction: Tensor, target: Tensor, tolerance: float = 0.1) -> Tensor:
        """How far each field is right, in [0, 1]: [..., dim] and [..., dim] -> [..., fields]; arguments broadcast.

        It is 1 for equal values. Categories, flags and counts have 0 otherwise; numbers and angles have ½ where they
        are `tolerance` of their scale apart (at 0.1, a twentieth of a range). Presence is not looked at.
        """
        if not tolerance > 0:
            raise ValueError(f"tolerance is {tolerance}: use a number above 0")
        prediction, target = self._check(prediction), self._check(target)
        fields = ((field, self.slices[name]) for name, field in self.fields.items())
        return torch.stack([field.closeness(prediction[..., s], target[..., s], tolerance) for field, s in fields], -1)

    @property
    def shares(self) -> Tensor:
        """What each field counts in a score, in sum 1: [fields]."""
        shares = torch.tensor([float(field.share) for field in self.fields.values()])
        return shares / shares.sum()

    @property
    def weights(self) -> Tensor:
        """The weight of each number in the loss [dim]: its field's share, 1 for the presence."""
        shares = [field.share for field in self.fields.values() for _ in range(field.dim)]
        return torch.tensor([*shares, 1.0] if self.presence else shares)

    def cost(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The Huber cost with each field's share, a mean over the last dimension; arguments broadcast.

        With all shares at 1 it is the paper's cost. Use it as `hungarian_loss(..., cost=schema.cost)`.
        """
        prediction, target = torch.broadcast_tensors(prediction, target)
        return (F.huber_loss(prediction, target, reduction="none") * self.weights.to(prediction)).mean(-1)

    def constraint(self, even_absent: bool = False) -> Constraint | None:
        """Keeps the numbers of each field where they can be: simplex, box or circle; None if nothing applies.

        With presence an absent element is zero, which lies on no simplex and no circle: then nothing is
        constrained, as in the paper's CLEVR, unless asked for with `even_absent`.
        """
        if self.presence and not even_absent:
            return None
        parts: dict[tuple[int, int], Constraint] = {}
        for name, field in self.fields.items():
            constraint = field.constraint()
            if constraint is not None:
                parts[self.slices[name].start, self.slices[name].stop] = constraint
        if self.presence:
            parts[self.dim - 1, self.dim] = Box(0.0, 1.0)
        return Fields(parts) if parts else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, for YAML and JSON.

        >>> Schema({"at": Real(2)}, size=3).to_dict()
        {'size': 3, 'presence': True, 'position': 'at', 'fields': {'at': {'type': 'real', 'dim': 2}}}
        """
        return {
            "size": self.size,
            "presence": self.presence,
            **({"position": self.position_field} if self.position_field is not None else {}),
            "fields": {name: field_to_dict(field) for name, field in self.fields.items()},
        }

    @classmethod
    def from_dict(cls, plain: Any) -> Schema:
        """The schema that `to_dict` wrote, or that someone wrote by hand.

        >>> Schema.from_dict({"size": 3, "fields": {"at": {"type": "real", "dim": 2}}}).dim
        3
        """
        return cls(**arguments_from_dict(plain))

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

    def _check(self, elements: Tensor) -> Tensor:
        if elements.dim() < 1 or elements.shape[-1] != self.dim:
            raise ValueError(f"elements are {list(elements.shape)}, the schema has {self.dim} numbers: match them")
        return elements


def _advice(name: str, item: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, [key for key in item if isinstance(key, str)], n=1)
    return f": is {short(near[0])} meant?" if near else ": add it"


def _row(columns: Mapping[str, Sequence[Any]], i: int) -> dict[str, Any]:
    return {name: column[i] for name, column in columns.items()}

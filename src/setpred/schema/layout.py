"""The layout of an element: where the numbers of each field lie, and what they mean to losses, metrics and decoders."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from ..constraints import Box, Constraint, PerSlice
from ..notices import renamed_property
from ..tensors import widest
from ..values import short
from .attributes import Attribute
from .fields import Field, Real

RESERVED = ("presence", "confidence")


class Layout:
    """The fields of an object in the order of their numbers, with the presence last if there is one."""

    def __init__(self, fields: Mapping[str, Field], presence: bool, position: str | None) -> None:
        if not fields:
            raise ValueError("fields is empty: an element needs at least one field")
        for name, field in fields.items():
            if not isinstance(name, str) or name in RESERVED:
                raise ValueError(f"fields has the name {short(name)}: use text other than {' or '.join(RESERVED)}")
            if not isinstance(field, Field):
                raise ValueError(f"fields[{short(name)}] is {short(field)}: use a field such as Real or Category")
        reals = [name for name, field in fields.items() if isinstance(field, Real)]
        if position is not None and position not in reals:
            raise ValueError(f"position {short(position)} is not a Real field: name one of {reals} or leave it out")
        if not isinstance(presence, bool):
            raise ValueError(f"presence is {short(presence)}: use true or false")
        self.fields = dict(fields)
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

    def attributes(self, elements: Tensor) -> Tensor:
        """Whole numbers for what must match exactly: [..., dim] -> [..., categories + flags + counts]."""
        elements = self.checked(elements)
        ids = [
            field.ids(elements[..., self.slices[name]])
            for name, field in self.fields.items()
            if isinstance(field, Attribute)
        ]
        return torch.stack(ids, -1) if ids else elements.new_zeros((*elements.shape[:-1], 0), dtype=torch.long)

    def position(self, elements: Tensor) -> Tensor:
        """The position field in the units of the data: [..., dim] -> [..., k]; k = 0 without one."""
        elements = self.checked(elements)
        if self.position_field is None:
            return elements[..., :0]
        field = self.fields[self.position_field]
        assert isinstance(field, Real)
        return field.restore(widest(elements[..., self.slices[self.position_field]]))

    def confidence(self, elements: Tensor) -> Tensor:
        """What detections are ranked by, the raw presence: [..., dim] -> [...]; 1 without presence."""
        elements = self.checked(elements)
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
        prediction, target = self.checked(prediction), self.checked(target)
        fields = ((field, self.slices[name]) for name, field in self.fields.items())
        return torch.stack([field.closeness(prediction[..., s], target[..., s], tolerance) for field, s in fields], -1)

    @property
    def field_weights(self) -> Tensor:
        """The weight of each field in a score, in sum 1: [fields]."""
        weights = torch.tensor([float(field.weight) for field in self.fields.values()])
        return weights / weights.sum()

    shares = renamed_property("shares", "field_weights")

    @property
    def weights(self) -> Tensor:
        """The weight of each number in the loss [dim]: that of its field, 1 for the presence."""
        weights = [field.weight for field in self.fields.values() for _ in range(field.dim)]
        return torch.tensor([*weights, 1.0] if self.presence else weights)

    def cost(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The Huber cost with each field's weight, a mean over the last dimension; arguments broadcast.

        With all weights at 1 it is the paper's cost. Use it as `hungarian_loss(..., cost=schema.cost)`.
        """
        prediction, target = torch.broadcast_tensors(prediction, target)
        return (F.huber_loss(prediction, target, reduction="none") * self.weights.to(prediction)).mean(-1)

    def activate(self, raw: Tensor) -> Tensor:
        """Elements from the raw outputs of a network: [..., dim] -> [..., dim].

        Categories become probabilities, flags and the presence lie between 0 and 1, numbers stay as they are.

        >>> from setpred.schema import Category, Real, Schema
        >>> Schema({"at": Real(), "kind": Category("cat", "dog")}, size=3).activate(torch.zeros(4))
        tensor([0.0000, 0.5000, 0.5000, 0.5000])
        """
        raw = self.checked(raw)
        parts = [field.activate(raw[..., self.slices[name]]) for name, field in self.fields.items()]
        return torch.cat([*parts, raw[..., -1:].sigmoid()] if self.presence else parts, -1)

    def error(self, raw: Tensor, target: Tensor) -> Tensor:
        """How wrong raw outputs are about elements that are present: [..., dim] and [..., dim] -> [...].

        Cross-entropy for categories and flags, absolute errors for numbers, each with the weight of its field. The
        arguments broadcast. Presence is not looked at.
        """
        raw, target = self.checked(raw), self.checked(target)
        fields = ((field, self.slices[name]) for name, field in self.fields.items())
        return torch.stack([field.weight * field.error(raw[..., s], target[..., s]) for field, s in fields]).sum(0)

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
        return PerSlice(parts) if parts else None

    def checked(self, elements: Tensor) -> Tensor:
        """The elements, if they are [..., dim]."""
        if elements.dim() < 1 or elements.shape[-1] != self.dim:
            raise ValueError(f"elements are {list(elements.shape)}, the schema has {self.dim} numbers: match them")
        return elements

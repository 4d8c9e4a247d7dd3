"""Fields that are near or far: real numbers and angles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..constraints import Box, Constraint, Sphere
from .field import MAX_DIM, Field
from .values import check_pair, check_whole, finite, keep_positive, plain, short

FLOAT32_MAX = torch.finfo(torch.float32).max


@dataclass(frozen=True)
class Real(Field):
    """`dim` real numbers, encoded as (value - middle of the range) / scale.

    Without a scale, a range is mapped to [-1, 1]; without either the numbers stay as they are.
    Decoded values are clipped to the range.

    >>> Real(3, range=(-3, 3)).encode([3.0, 0.0, -1.5])
    [1.0, 0.0, -0.5]
    >>> Real(scale=10).decode(torch.tensor([[0.5], [-2.0]]))
    [5.0, -20.0]
    """

    dim: int = 1
    range: tuple[float, float] | None = None
    scale: float | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        check_whole("dim", self.dim, MAX_DIM)
        keep_positive(self, "share")
        if self.range is not None:
            low, high = check_pair("range", self.range)
            if not low < high:
                raise ValueError(f"range ({low:g}, {high:g}) is empty: give the smaller number first")
            object.__setattr__(self, "range", (low, high))
        if self.scale is not None:
            keep_positive(self, "scale")
        if self.unit < 1e-30:
            raise ValueError(f"one unit would be {self.unit:g}: give a wider range or a larger scale")

    @cached_property
    def middle(self) -> float:
        return self.range[0] / 2 + self.range[1] / 2 if self.range else 0.0

    @cached_property
    def unit(self) -> float:
        """What one encoded unit is in the units of the data."""
        if self.scale is not None:
            return float(self.scale)
        return self.range[1] / 2 - self.range[0] / 2 if self.range else 1.0

    def encode(self, value: Any) -> list[float]:
        value = plain(value)
        if not isinstance(value, list | tuple):
            if self.dim > 1:
                raise ValueError(f"{short(value)} is one value: give a list of {self.dim} numbers")
            value = [value]
        if len(value) != self.dim:
            raise ValueError(f"has {len(value)} numbers, the schema says {self.dim}: correct one of them")
        return [self._encode_number(number) for number in value]

    def _encode_number(self, value: Any) -> float:
        number = finite(value)
        if self.range is not None:
            low, high = self.range
            slack = 1e-6 * self.unit
            if not low - slack <= number <= high + slack:
                raise ValueError(f"{number:g} is outside the range ({low:g}, {high:g}): widen it in the schema")
        encoded = (number - self.middle) / self.unit
        if abs(encoded) > FLOAT32_MAX:
            raise ValueError(f"{number:g} does not fit 32 bits: give the field a larger scale")
        return encoded

    def restore(self, numbers: Tensor) -> Tensor:
        """The numbers in the units of the data: [..., dim] -> [..., dim]."""
        values = numbers * self.unit + self.middle
        return values if self.range is None else values.clamp(*self.range)

    def decode(self, numbers: Tensor) -> list[Any]:
        values = self.restore(numbers.double())
        if not values.isfinite().all():
            raise ValueError("a decoded number is beyond what a float holds: did the inner optimisation diverge?")
        return (values if self.dim > 1 else values.squeeze(1)).tolist()

    def closeness(self, prediction: Tensor, target: Tensor, tolerance: float) -> Tensor:
        # Clipped to the range, as in the units of the data; in those, 32 bits would round what is far from 0.
        box = self.constraint() or (lambda numbers: numbers)
        return _closeness((box(prediction) - box(target)).norm(dim=-1), tolerance)

    def constraint(self) -> Constraint | None:
        if self.range is None:
            return None
        low, high = ((bound - self.middle) / self.unit for bound in self.range)
        return Box(low, high)


@dataclass(frozen=True)
class Angle(Field):
    """A direction that comes round after `period`, encoded as (cos, sin), decoded into [0, period).

    >>> Angle().decode(torch.tensor([[0.0, -2.0]]))
    [270.0]
    """

    period: float = 360.0
    share: float = 1.0

    def __post_init__(self) -> None:
        keep_positive(self, "period", "share")

    @property
    def dim(self) -> int:
        return 2

    def encode(self, value: Any) -> list[float]:
        turn = math.tau * (finite(value) % self.period / self.period)
        return [math.cos(turn), math.sin(turn)]

    def decode(self, numbers: Tensor) -> list[Any]:
        cos, sin = numbers.double().unbind(-1)
        # Twice: the remainder of a tiny negative angle rounds up to the period itself.
        return (torch.atan2(sin, cos) / math.tau * self.period % self.period % self.period).tolist()

    def closeness(self, prediction: Tensor, target: Tensor, tolerance: float) -> Tensor:
        chord = (F.normalize(prediction, dim=-1) - F.normalize(target, dim=-1)).norm(dim=-1)
        # The arc on the circle of radius 1.
        return _closeness(2 * (chord / 2).clamp(max=1).asin(), tolerance)

    def constraint(self) -> Constraint:
        return Sphere()


def _closeness(apart: Tensor, tolerance: float) -> Tensor:
    return (1 / (1 + (apart / tolerance).square())).nan_to_num(nan=0.0)

"""Fields: their base class, and the fields whose values can be near or far, real numbers and angles.

A field knows neither its name nor the other fields. Its errors describe the value, and `Schema` adds which object and
which field it belongs to.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from ..constraints import Box, Constraint, Sphere
from ..notices import renamed_arguments
from ..values import check_finite, check_pair, check_whole, finite, plain, short

MAX_DIM = 1 << 16
NUMBER_WEIGHT = 5.0
"""The weight of the absolute error of a number beside the cross-entropy of a category (as in DETR)."""
FLOAT32_MAX = torch.finfo(torch.float32).max


class Field(ABC):
    """Base class: one property of an object. `weight` is the weight of its numbers in the loss, and of the field in the
    score."""

    weight: float

    @property
    @abstractmethod
    def dim(self) -> int:
        """How many numbers the field takes in an element."""

    @abstractmethod
    def encode(self, value: Any) -> list[float]:
        """The `dim` numbers of one value."""

    @abstractmethod
    def decode(self, numbers: Tensor) -> list[Any]:
        """The values of the rows of `numbers` [k, dim]."""

    @abstractmethod
    def closeness(self, prediction: Tensor, target: Tensor, tolerance: float) -> Tensor:
        """1 for equal values, ½ for a difference of `tolerance` times the scale, then less: [..., dim] -> [...]."""

    def activate(self, raw: Tensor) -> Tensor:
        """The field's numbers from the raw outputs of a network: [..., dim] -> [..., dim]."""
        return raw

    def error(self, raw: Tensor, target: Tensor) -> Tensor:
        """The error of raw outputs against encoded values: [..., dim] and [..., dim] -> [...]; arguments broadcast."""
        return NUMBER_WEIGHT * (raw - target).abs().sum(-1)

    @abstractmethod
    def constraint(self) -> Constraint | None:
        """The constraint that the numbers of a present object satisfy; None if they are free."""

    def to_dict(self) -> dict[str, Any]:
        """The field as plain values: its type (the name of the class) and all arguments that differ from their
        defaults.

        >>> Real(3, range=(-1, 1)).to_dict()
        {'type': 'real', 'dim': 3, 'range': [-1.0, 1.0]}
        """
        plain: dict[str, Any] = {"type": type(self).__name__.lower()}
        for entry in fields(self):  # type: ignore[arg-type]
            value = getattr(self, entry.name)
            if entry.default is MISSING or value != entry.default:
                plain[entry.name] = list(value) if isinstance(value, tuple) else value
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The field of a dictionary, written by `to_dict` or by hand.

        >>> Real.from_dict({"type": "real", "size": 3})
        Traceback (most recent call last):
        ValueError: unknown key 'size': a real has dim, range, scale, weight, pixels
        """
        arguments = {key: value for key, value in plain.items() if key != "type"}
        entries = fields(cls)  # type: ignore[arg-type]
        kind, names = cls.__name__.lower(), [entry.name for entry in entries]
        for key in arguments:
            if key not in names and key not in getattr(cls, "old_arguments", ()):
                raise ValueError(f"unknown key {short(key)}: a {kind} has {', '.join(names)}")
        for entry in entries:
            if entry.default is MISSING and entry.name not in arguments:
                raise ValueError(f"a {kind} has no {entry.name}: add it")
        return cls._build(**arguments)

    @classmethod
    def _build(cls, **arguments: Any) -> Self:
        return cls(**arguments)


@renamed_arguments(share="weight")
@dataclass(frozen=True)
class Real(Field):
    """`dim` real numbers, encoded as (value - middle of the range) / scale.

    Without a scale, a range is mapped to [-1, 1]. Without range and scale, the numbers stay as they are. Decoded values
    are clipped to the range.

    With `pixels`, the values are positions in an image, in pixels of its file: x and y, or the middle, width and height
    of a box. Inside a model they are fractions of the longer side of its canvas (see `setpred.letterbox`), in the range
    (0, 1); `in_pixels` converts for one image.

    >>> Real(3, range=(-3, 3)).encode([3.0, 0.0, -1.5])
    [1.0, 0.0, -0.5]
    >>> Real(scale=10).decode(torch.tensor([[0.5], [-2.0]]))
    [5.0, -20.0]
    """

    dim: int = 1
    range: tuple[float, float] | None = None
    scale: float | None = None
    weight: float = 1.0
    pixels: bool = False

    def __post_init__(self) -> None:
        check_whole("dim", self.dim, MAX_DIM)
        if not isinstance(self.pixels, bool):
            raise ValueError(f"pixels is {short(self.pixels)}: use true or false")
        if self.pixels and self.dim not in (2, 4):
            raise ValueError(f"pixels needs x and y (dim 2) or a box (dim 4), dim is {self.dim}: leave pixels out")
        if self.pixels and (self.range is not None or self.scale is not None):
            raise ValueError("pixels has its range and scale from the images: leave range and scale out")
        keep_positive(self, "weight")
        if self.range is not None:
            low, high = check_pair("range", self.range)
            if not low < high:
                raise ValueError(f"range ({low:g}, {high:g}) is empty: give the smaller number first")
            object.__setattr__(self, "range", (low, high))
        if self.scale is not None:
            keep_positive(self, "scale")
        if self.unit < 1e-30:
            raise ValueError(f"one unit would be {self.unit:g}: give a wider range or a larger scale")

    def in_pixels(self, pixel: float) -> Real:
        """The field for one image, one pixel of which covers the fraction `pixel` of the canvas; itself without
        `pixels`.

        >>> Real(2, pixels=True).in_pixels(1 / 640).encode([320, 480])
        [0.0, 0.5]
        """
        return Real(self.dim, range=(0.0, 1 / pixel), weight=self.weight) if self.pixels else self

    @cached_property
    def bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest value, where they are known."""
        return (0.0, 1.0) if self.pixels else self.range

    @cached_property
    def middle(self) -> float:
        return self.bounds[0] / 2 + self.bounds[1] / 2 if self.bounds else 0.0

    @cached_property
    def unit(self) -> float:
        """The size of one encoded unit, in units of the data."""
        if self.scale is not None:
            return float(self.scale)
        return self.bounds[1] / 2 - self.bounds[0] / 2 if self.bounds else 1.0

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
        if self.bounds is not None:
            low, high = self.bounds
            slack = 1e-6 * self.unit
            if not low - slack <= number <= high + slack:
                raise ValueError(f"{number:g} is outside the range ({low:g}, {high:g}): widen it in the schema")
        encoded = (number - self.middle) / self.unit
        if abs(encoded) > FLOAT32_MAX:
            raise ValueError(f"{number:g} does not fit 32 bits: give the field a larger scale")
        return encoded

    def restore(self, numbers: Tensor) -> Tensor:
        """Encoded numbers in units of the data: [..., dim] -> [..., dim]."""
        values = numbers * self.unit + self.middle
        return values if self.bounds is None else values.clamp(*self.bounds)

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
        if self.bounds is None:
            return None
        low, high = ((bound - self.middle) / self.unit for bound in self.bounds)
        return Box(low, high)


@renamed_arguments(share="weight")
@dataclass(frozen=True)
class Angle(Field):
    """A direction that repeats after `period`, encoded as (cos, sin) and decoded into [0, period).

    >>> Angle().decode(torch.tensor([[0.0, -2.0]]))
    [270.0]
    """

    period: float = 360.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        keep_positive(self, "period", "weight")

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


def keep_positive(field: Any, *names: str) -> None:
    """Make the named arguments of a frozen field plain numbers, or raise; they are written to files as they are."""
    for name in names:
        value = getattr(field, name)
        number = check_finite(name, value)
        if number <= 0:
            raise ValueError(f"{name} is {short(value)}: use a number above 0")
        object.__setattr__(field, name, number)


def _closeness(apart: Tensor, tolerance: float) -> Tensor:
    return (1 / (1 + (apart / tolerance).square())).nan_to_num(nan=0.0)

"""What every kind of field can do.

A field knows neither its name nor the other fields: its errors speak of the value alone, and `Schema`
adds which object and which field.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from ..constraints import Constraint

MAX_DIM = 1 << 16


class Field(ABC):
    """One property of an object. `share` is its weight: of its numbers in the loss, of the whole field in the score."""

    share: float

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
        """1 for the same value, ½ at `tolerance` of the field's scale, less beyond: [..., dim] -> [...]."""

    @abstractmethod
    def constraint(self) -> Constraint | None:
        """The set in which the numbers of an object that is present lie; None if it is everything."""


class Attribute(Field):
    """A field with finitely many values: right or wrong, with nothing between."""

    @abstractmethod
    def ids(self, numbers: Tensor) -> Tensor:
        """Which of the values, as whole numbers: [..., dim] -> [...]."""

    def closeness(self, prediction: Tensor, target: Tensor, tolerance: float) -> Tensor:
        return ((self.ids(prediction) == self.ids(target)) & prediction.isfinite().all(-1)).to(prediction)

    @abstractmethod
    def probability(self, numbers: Tensor) -> Tensor:
        """How sure the numbers are of that value, in [0, 1]: [..., dim] -> [...]."""

"""Fields whose values are either right or wrong: categories, flags and counts."""

from __future__ import annotations

import difflib
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from ..constraints import Box, Constraint, Simplex
from ..notices import renamed_arguments
from ..values import check_whole, finite, listing, plain, short
from .fields import MAX_DIM, Field, keep_positive


class Attribute(Field):
    """Base class of fields with finitely many values, of which a prediction is either right or wrong."""

    @abstractmethod
    def ids(self, numbers: Tensor) -> Tensor:
        """The index of the value that the numbers stand for: [..., dim] -> [...]."""

    def closeness(self, prediction: Tensor, target: Tensor, tolerance: float) -> Tensor:
        return ((self.ids(prediction) == self.ids(target)) & prediction.isfinite().all(-1)).to(prediction)

    @abstractmethod
    def probability(self, numbers: Tensor) -> Tensor:
        """The confidence in that value, in [0, 1]: [..., dim] -> [...]."""


@renamed_arguments(share="weight")
@dataclass(frozen=True, init=False)
class Category(Attribute):
    """One of several names (text or whole numbers), encoded one-hot.

    >>> material = Category("rubber", "metal")
    >>> material.encode("metal")
    [0.0, 1.0]
    >>> material.decode(torch.tensor([[0.9, 0.2]]))
    ['rubber']
    >>> material.encode("mettal")
    Traceback (most recent call last):
    ValueError: 'mettal' is not one of 'rubber', 'metal': did you mean 'metal'?
    """

    names: tuple[str | int, ...]
    weight: float = 1.0

    def __init__(self, *names: str | int, weight: float = 1.0) -> None:
        if not 1 <= len(names) <= MAX_DIM:
            raise ValueError(f"names has {len(names)} values: list 1 to {MAX_DIM}")
        for name in names:
            if isinstance(name, bool) or not isinstance(name, str | int):
                raise ValueError(f"names holds {short(name)}: use text or whole numbers (quote yes, no, on, off)")
        if len(set(names)) < len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise ValueError(f"names holds {short(twice)} twice: list each value once")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "weight", weight)
        keep_positive(self, "weight")

    @classmethod
    def _build(cls, **arguments: Any) -> Self:
        names = arguments.pop("names")
        if not isinstance(names, list | tuple):
            raise ValueError(f"names is {short(names)}: list the values of the category")
        return cls(*names, **arguments)

    @property
    def dim(self) -> int:
        return len(self.names)

    @cached_property
    def _index(self) -> dict[str | int, int]:
        return {name: i for i, name in enumerate(self.names)}

    def encode(self, value: Any) -> list[float]:
        value = plain(value)
        known = isinstance(value, str | int | float) and not isinstance(value, bool)
        index = self._index.get(value) if known else None
        if index is None:
            raise ValueError(f"{short(value)} is not one of {listing(self.names)}{self._advice(value)}")
        row = [0.0] * len(self.names)
        row[index] = 1.0
        return row

    def _advice(self, value: Any) -> str:
        texts = {str(name): name for name in self.names}
        near = difflib.get_close_matches(short(value).strip("'\""), texts, n=1)
        return f": did you mean {short(texts[near[0]])}?" if near else ": correct it, or add it to the schema"

    def ids(self, numbers: Tensor) -> Tensor:
        return numbers.argmax(-1)

    def probability(self, numbers: Tensor) -> Tensor:
        positive = numbers.clamp(min=0)
        total = positive.sum(-1)
        return torch.where(total > 0, positive.amax(-1) / total.clamp(min=1e-12), 1 / self.dim)

    def decode(self, numbers: Tensor) -> list[Any]:
        return [self.names[i] for i in self.ids(numbers).tolist()]

    def activate(self, raw: Tensor) -> Tensor:
        return raw.softmax(-1)

    def error(self, raw: Tensor, target: Tensor) -> Tensor:
        # A matrix product where all proposals meet all targets; logsumexp takes a quarter of log_softmax's time.
        return -torch.einsum("...k,...k->...", raw - raw.logsumexp(-1, keepdim=True), target)

    def constraint(self) -> Constraint:
        return Simplex()


@renamed_arguments(share="weight")
@dataclass(frozen=True)
class Flag(Attribute):
    """True or false, encoded as 1 or 0.

    >>> Flag().encode(True), Flag().decode(torch.tensor([[0.2], [0.8]]))
    ([1.0], [False, True])
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        keep_positive(self, "weight")

    @property
    def dim(self) -> int:
        return 1

    def encode(self, value: Any) -> list[float]:
        value = plain(value)
        if not isinstance(value, bool | int | float) or value not in (0, 1):
            raise ValueError(f"{short(value)} is not a flag: use true or false")
        return [float(value)]

    def ids(self, numbers: Tensor) -> Tensor:
        return (numbers[..., 0] > 0.5).long()

    def probability(self, numbers: Tensor) -> Tensor:
        true = numbers[..., 0].clamp(0, 1)
        return torch.maximum(true, 1 - true)

    def decode(self, numbers: Tensor) -> list[Any]:
        return self.ids(numbers).bool().tolist()

    def activate(self, raw: Tensor) -> Tensor:
        return raw.sigmoid()

    def error(self, raw: Tensor, target: Tensor) -> Tensor:
        raw, target = torch.broadcast_tensors(raw[..., 0], target[..., 0])
        return F.binary_cross_entropy_with_logits(raw, target, reduction="none")

    def constraint(self) -> Constraint:
        return Box(0.0, 1.0)


@renamed_arguments(share="weight")
@dataclass(frozen=True)
class Count(Attribute):
    """A whole number from 0 to `max`, encoded as a fraction of `max`.

    >>> Count(4).encode(3), Count(4).decode(torch.tensor([[0.7], [1.9]]))
    ([0.75], [3, 4])
    """

    max: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        # Beyond a million a 32-bit fraction no longer tells neighbours apart safely.
        check_whole("max", self.max, 1_000_000)
        keep_positive(self, "weight")

    @property
    def dim(self) -> int:
        return 1

    def encode(self, value: Any) -> list[float]:
        number = finite(value)
        if number != int(number) or not 0 <= number <= self.max:
            raise ValueError(f"{number:g} is not a whole number from 0 to {self.max}: correct it, or raise max")
        return [number / self.max]

    def ids(self, numbers: Tensor) -> Tensor:
        return (numbers[..., 0].nan_to_num() * self.max).round().clamp(0, self.max).long()

    def probability(self, numbers: Tensor) -> Tensor:
        # A regressed count has no distribution; its distance to the nearest whole number stands for one.
        scaled = (numbers[..., 0] * self.max).clamp(0, self.max)
        return 1 - (scaled - scaled.round()).abs()

    def decode(self, numbers: Tensor) -> list[Any]:
        return self.ids(numbers.double()).tolist()

    def constraint(self) -> Constraint:
        return Box(0.0, 1.0)

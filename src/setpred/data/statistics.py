"""Statistics of the values of one field, in memory that does not grow with the data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

# A category with more values than this is free text or an identifier.
MAX_VALUES = 1000


@dataclass
class Moments:
    """Mean, spread and extremes of a stream of numbers (Welford's update)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, value: float) -> None:
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self.squares += before * (value - self.mean)
        self.low = min(self.low, value)
        self.high = max(self.high, value)

    def merge(self, other: Moments) -> Moments:
        count = self.count + other.count
        if not other.count or not self.count:
            return self if self.count else other
        apart = other.mean - self.mean
        return Moments(
            count,
            self.mean + apart * other.count / count,
            self.squares + other.squares + apart * apart * self.count * other.count / count,
            min(self.low, other.low),
            max(self.high, other.high),
        )

    @property
    def std(self) -> float:
        return math.sqrt(self.squares / self.count) if self.count and self.squares > 0 else 0.0


@dataclass
class FieldStatistics:
    """What the values of one field are like, updated value by value.

    >>> seen = FieldStatistics()
    >>> for value in ([1.0, 2.0], [3.0, 4.0], "n/a"):
    ...     seen.add(value)
    >>> seen.kind, seen.length, [moments.high for moments in seen.moments]
    ('numbers', 2, [3.0, 4.0])
    """

    kinds: Counter[tuple[str, int]] = field(default_factory=Counter)
    numbers: dict[int, list[Moments]] = field(default_factory=dict)
    values: Counter[str | int] = field(default_factory=Counter)
    flags: Moments = field(default_factory=Moments)
    floats: bool = False
    fractions: bool = False
    inside: int = 0
    """How many are places in their own image, in its pixels; see `inspection.is_inside`."""

    def add(self, value: Any) -> None:
        if isinstance(value, bool):
            self.kinds["flag", 1] += 1
            self.flags.add(float(value))
        elif isinstance(value, str):
            self.kinds["text", 1] += 1
            self._count(value)
        elif (numbers := numbers_of(value)) is not None:
            self.kinds["numbers", len(numbers)] += 1
            moments = self.numbers.setdefault(len(numbers), [Moments() for _ in numbers])
            for moment, number in zip(moments, numbers, strict=True):
                moment.add(number)
            self.fractions |= any(abs(number - round(number)) > 1e-3 for number in numbers)
            if isinstance(value, int):
                self._count(value)
            else:
                self.floats = True
        else:
            self.kinds["other", 1] += 1

    def _count(self, value: str | int) -> None:
        if value in self.values or len(self.values) <= MAX_VALUES:
            self.values[value] += 1

    @classmethod
    def merge(cls, parts: Iterable[FieldStatistics]) -> FieldStatistics:
        merged = cls()
        for part in parts:
            merged.kinds += part.kinds
            merged.values += part.values
            merged.flags = merged.flags.merge(part.flags)
            merged.floats |= part.floats
            merged.fractions |= part.fractions
            merged.inside += part.inside
            for length, moments in part.numbers.items():
                known = merged.numbers.get(length, [Moments()] * length)
                merged.numbers[length] = [a.merge(b) for a, b in zip(known, moments, strict=True)]
        return merged

    @property
    def count(self) -> int:
        return self.kinds.total()

    @property
    def kind(self) -> str:
        """What most values are: flag, text, numbers or other."""
        return self.kinds.most_common(1)[0][0][0] if self.kinds else "other"

    @property
    def length(self) -> int:
        """How many numbers most values have."""
        return self.kinds.most_common(1)[0][0][1] if self.kinds else 1

    @property
    def moments(self) -> list[Moments]:
        """Those of the values that most are like, one for each number."""
        if self.kind == "flag":
            return [self.flags]
        return self.numbers.get(self.length, []) if self.kind == "numbers" else []

    @property
    def low(self) -> float:
        return min(moments.low for moments in self.moments)

    @property
    def high(self) -> float:
        return max(moments.high for moments in self.moments)

    def named(self, kind: type) -> Counter[Any]:
        """How often each text, or each whole number, occurs."""
        return Counter({value: times for value, times in self.values.items() if isinstance(value, kind)})


def numbers_of(value: Any) -> list[float] | None:
    """The finite numbers of a value; None if it is anything else."""
    values = value if isinstance(value, list) else [value]
    if not values or any(isinstance(number, bool) or not isinstance(number, int | float) for number in values):
        return None
    try:
        numbers = [float(number) for number in values]
    except OverflowError:
        return None
    return numbers if all(math.isfinite(number) for number in numbers) else None

"""Constraints: where the elements of a set may go, as differentiable projections.

A constraint takes any tensor whose last dimension is an element (or a slice of one) and returns the nearest tensor that
satisfies it. `polyhedral` says that the Jacobian of the projection is itself an orthogonal
projector (on the tangent of the active face), which lets an implicit adjoint solve a symmetric system.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from .kernels.simplex import project_simplex


class Constraint:
    """Base class of the constraints."""

    polyhedral: bool = True

    def __call__(self, sets: Tensor) -> Tensor:
        raise NotImplementedError

    def can_hold(self, given: Tensor) -> bool:
        """Whether the given entries `[..., dim]` can stay as they are while the others are projected."""
        return bool((given == given[..., :1]).all())


@dataclass
class Simplex(Constraint):
    """Non-negative numbers with a fixed sum. `total=1` is the probability simplex.

    Args:
        total: the sum.

    >>> Simplex()(torch.tensor([0.5, 0.9, -3.0])).tolist()
    [0.30000001192092896, 0.699999988079071, 0.0]
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        _positive("Simplex", "total", self.total)

    def __call__(self, sets: Tensor) -> Tensor:
        return project_simplex(_checked(sets), self.total)


@dataclass
class Box(Constraint):
    """Each number between `low` and `high`.

    Args:
        low: smallest number allowed.
        high: largest number allowed.

    >>> Box(0.0, 1.0)(torch.tensor([-0.5, 0.25, 3.0])).tolist()
    [0.0, 0.25, 1.0]
    """

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"Box needs low < high, got {self.low} and {self.high}")

    def __call__(self, sets: Tensor) -> Tensor:
        return _checked(sets).clamp(self.low, self.high)

    def can_hold(self, given: Tensor) -> bool:
        return True


@dataclass
class NonNegative(Constraint):
    """No number below zero.

    >>> NonNegative()(torch.tensor([-0.5, 0.25])).tolist()
    [0.0, 0.25]
    """

    def __call__(self, sets: Tensor) -> Tensor:
        return _checked(sets).clamp(min=0.0)

    def can_hold(self, given: Tensor) -> bool:
        return True


@dataclass
class Ball(Constraint):
    """Each element is at most `radius` long.

    Args:
        radius: largest length of an element.

    >>> Ball()(torch.tensor([[3.0, 4.0], [0.5, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.5, 0.0]]
    """

    radius: float = 1.0
    polyhedral = False

    def __post_init__(self) -> None:
        _positive("Ball", "radius", self.radius)

    def __call__(self, sets: Tensor) -> Tensor:
        largest, scaled, norm = _measured(sets)
        return torch.where(norm * largest > self.radius, scaled * (self.radius / norm), sets)


@dataclass
class Sphere(Constraint):
    """Each element is exactly `radius` long. A zero element is moved along the first axis.

    Args:
        radius: length of every element.

    >>> Sphere(radius=5.0)(torch.tensor([[0.3, 0.4], [0.0, 0.0]])).tolist()
    [[3.0, 4.0], [5.0, 0.0]]
    """

    radius: float = 1.0
    polyhedral = False

    def __post_init__(self) -> None:
        _positive("Sphere", "radius", self.radius)

    def __call__(self, sets: Tensor) -> Tensor:
        largest, scaled, norm = _measured(sets)
        axis = torch.zeros_like(sets)
        axis[..., 0] = self.radius
        return torch.where(largest == 0, axis, scaled * (self.radius / norm))


@dataclass
class PerSlice(Constraint):
    """Constrain slices of the element one by one. Numbers outside all slices are free.

    Args:
        parts: a constraint for each slice `(start, stop)`.

    >>> PerSlice({(0, 2): Simplex(), (2, 3): NonNegative()})(torch.tensor([2.0, 0.0, -1.0, -1.0])).tolist()
    [1.0, 0.0, 0.0, -1.0]
    """

    parts: Mapping[tuple[int, int], Constraint]

    def __post_init__(self) -> None:
        end = 0
        for start, stop in sorted(self.parts):
            if start < end or stop <= start:
                raise ValueError(f"PerSlice: the slice ({start}, {stop}) is empty or overlaps the one before it")
            end = stop
        self.polyhedral = all(part.polyhedral for part in self.parts.values())

    def __call__(self, sets: Tensor) -> Tensor:
        dim, end, pieces = _checked(sets).shape[-1], 0, []
        for (start, stop), part in sorted(self.parts.items(), key=lambda item: item[0]):
            if stop > dim:
                raise ValueError(
                    f"PerSlice: the slice ({start}, {stop}) ends past the element, which has {dim} numbers"
                )
            pieces += [sets[..., end:start], part(sets[..., start:stop])]
            end = stop
        return torch.cat([*pieces, sets[..., end:]], dim=-1)

    def can_hold(self, given: Tensor) -> bool:
        return all(part.can_hold(given[..., start:stop]) for (start, stop), part in self.parts.items())


def _measured(sets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The largest number of each element, the element divided by it, and the length of that.

    So that no square is too large or too small for its type; the origin gets the length 1.
    """
    largest = _checked(sets).detach().abs().amax(dim=-1, keepdim=True)
    scaled = sets / largest.where(largest != 0, 1.0)
    return largest, scaled, scaled.where(largest != 0, 1.0).norm(dim=-1, keepdim=True)


def _checked(sets: Tensor) -> Tensor:
    """The sets, whose elements have at least one number."""
    if sets.ndim == 0 or sets.shape[-1] == 0:
        raise ValueError(f"sets have shape {list(sets.shape)}: their elements need at least one number")
    return sets


def _positive(constraint: str, name: str, value: float) -> None:
    if not (value > 0 and isfinite(value)):
        raise ValueError(f"{constraint}: {name} is {value}, it must be above 0 and finite")

"""Constraints: where the elements of a set may go, as differentiable projections.

A constraint is called with any tensor whose last dimension is an element (or its slice) and returns the
nearest admissible tensor. `polyhedral` says that the Jacobian of the projection is itself an orthogonal
projector (on the tangent of the active face), which lets an implicit adjoint solve a symmetric system.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from .kernels.simplex import in_rows, project_simplex, project_simplex_


class Constraint:
    """Base of the constraints."""

    polyhedral: bool = True

    def __call__(self, sets: Tensor) -> Tensor:
        raise NotImplementedError

    def project_(self, sets: Tensor) -> None:
        """Project in place, without a graph."""
        sets.copy_(self(sets))


@dataclass
class Simplex(Constraint):
    """Non-negative numbers with a fixed sum: the probability simplex for `total=1`.

    >>> Simplex()(torch.tensor([0.5, 0.9, -3.0])).tolist()
    [0.30000001192092896, 0.699999988079071, 0.0]
    """

    total: float = 1.0

    def __call__(self, sets: Tensor) -> Tensor:
        return project_simplex(sets, self.total)

    def project_(self, sets: Tensor) -> None:
        if in_rows(sets):
            project_simplex_(sets, self.total)
        else:
            super().project_(sets)


@dataclass
class Box(Constraint):
    """Each number between `low` and `high`."""

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"Box needs low < high, got {self.low} and {self.high}")

    def __call__(self, sets: Tensor) -> Tensor:
        return sets.clamp(self.low, self.high)


@dataclass
class NonNegative(Constraint):
    """No number below zero."""

    def __call__(self, sets: Tensor) -> Tensor:
        return sets.clamp(min=0.0)


@dataclass
class Ball(Constraint):
    """Each element at most `radius` from the origin."""

    radius: float = 1.0
    polyhedral = False

    def __call__(self, sets: Tensor) -> Tensor:
        norm = sets.norm(dim=-1, keepdim=True)
        outside = norm > self.radius
        return torch.where(outside, sets * (self.radius / norm.where(outside, torch.ones_like(norm))), sets)


@dataclass
class Sphere(Constraint):
    """Each element exactly `radius` from the origin; the origin itself goes to the first axis."""

    radius: float = 1.0
    polyhedral = False

    def __call__(self, sets: Tensor) -> Tensor:
        norm = sets.norm(dim=-1, keepdim=True)
        axis = torch.zeros_like(sets)
        axis[..., 0] = self.radius
        return torch.where(norm > 0, sets * (self.radius / norm.where(norm > 0, torch.ones_like(norm))), axis)


@dataclass
class Fields(Constraint):
    """Each constraint on its own slice `(start, stop)` of the element; what is not named stays free.

    >>> Fields({(0, 2): Simplex(), (2, 3): NonNegative()})(torch.tensor([2.0, 0.0, -1.0, -1.0])).tolist()
    [1.0, 0.0, 0.0, -1.0]
    """

    parts: Mapping[tuple[int, int], Constraint]

    def __post_init__(self) -> None:
        end = 0
        for start, stop in sorted(self.parts):
            if start < end or stop <= start:
                raise ValueError(f"Fields: the slice ({start}, {stop}) is empty or overlaps the one before it")
            end = stop
        self.polyhedral = all(part.polyhedral for part in self.parts.values())

    def __call__(self, sets: Tensor) -> Tensor:
        dim, end, pieces = sets.shape[-1], 0, []
        for (start, stop), part in sorted(self.parts.items(), key=lambda item: item[0]):
            if stop > dim:
                raise ValueError(f"Fields: the slice ({start}, {stop}) ends past the element, which has {dim} numbers")
            pieces += [sets[..., end:start], part(sets[..., start:stop])]
            end = stop
        return torch.cat([*pieces, sets[..., end:]], dim=-1)

    def project_(self, sets: Tensor) -> None:
        for (start, stop), part in self.parts.items():
            part.project_(sets[..., start:stop])

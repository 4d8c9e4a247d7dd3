"""Equivariant DeepSets: set-equivariant, so equal elements stay equal."""

import torch
from torch import Tensor, nn

from ..encoders import checked_sets


class DeepSets(nn.Module):
    """Two layers of A x_i + B mean(x) with a ReLU between them.

    Args:
        dim: entries of an input element.
        out: entries of an output element.
        hidden: width between the layers.

    >>> DeepSets()(torch.zeros(2, 64, 4)).shape
    torch.Size([2, 64, 64])
    """

    def __init__(self, dim: int = 4, out: int = 64, hidden: int = 256) -> None:
        super().__init__()
        self.dim = dim
        self.first = EquivariantLinear(dim, hidden)
        self.second = EquivariantLinear(hidden, out)

    def forward(self, sets: Tensor, mask: Tensor | None = None) -> Tensor:
        """`[batch, n, dim]` and the valid elements `[batch, n]` to `[batch, n, out]`, 0 where not valid."""
        sets = checked_sets(sets, self.dim, mask)
        return self.second(self.first(sets, mask).relu(), mask)


class EquivariantLinear(nn.Module):
    """A x_i + B mean(x): all that a linear map can do to a set without looking at its order."""

    def __init__(self, dim: int, out: int) -> None:
        super().__init__()
        self.each = nn.Linear(dim, out)
        self.mean = nn.Linear(dim, out, bias=False)

    def forward(self, sets: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return self.each(sets) + self.mean(sets.mean(dim=1, keepdim=True))
        valid = mask.unsqueeze(-1)
        total = torch.where(valid, sets, 0).sum(dim=1, keepdim=True)
        mean = total / valid.sum(dim=1, keepdim=True).clamp(min=1)
        return torch.where(valid, self.each(sets) + self.mean(mean), 0)

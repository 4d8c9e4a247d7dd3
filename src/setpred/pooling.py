"""Pooling: a set of feature vectors becomes one vector, which does not depend on the order of the set.

Every pooling takes features `[batch, size, channels]` and an optional mask `[batch, size]` (True where an
element exists) and returns `[batch, channels]`. An empty set pools to zeros.
"""

import torch
from torch import Tensor, nn

from .kernels.sorting import collect


class SumPool(nn.Module):
    """Sum over the set.

    >>> SumPool()(torch.ones(1, 3, 2)).tolist()
    [[3.0, 3.0]]
    """

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        return _hide(features, mask, 0.0).sum(dim=1)


class MeanPool(nn.Module):
    """Mean over the elements that exist.

    >>> MeanPool()(torch.tensor([[[1.0], [3.0], [8.0]]]), torch.tensor([[True, True, False]])).tolist()
    [[2.0]]
    """

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return _checked(features).mean(dim=1)
        total = _hide(features, mask, 0.0).sum(dim=1)
        return total / mask.sum(dim=1, keepdim=True).clamp(min=1).to(features.dtype)


class MaxPool(nn.Module):
    """Largest value of each channel. The gradient is divided evenly among equal maxima.

    >>> MaxPool()(torch.tensor([[[1.0], [3.0]]])).tolist()
    [[3.0]]
    """

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        largest = _hide(features, mask, -torch.inf).amax(dim=1)
        return largest if mask is None else largest.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)


class FSPool(nn.Module):
    """Featurewise sort pooling: sort every channel over the set, multiply by one weight per rank, and sum.

    Equal values are ranked by their index, so equal elements get different weights and different gradients: the
    gradient is *exclusively multiset-equivariant*.

    The weights are a piecewise-linear function of the relative rank, with `size` knots. A set of exactly `size`
    elements uses each knot once. In a set of k elements, the element of rank i uses the value at i / (k - 1).

    Args:
        channels: features per element.
        size: knots of the weight function, normally the largest number of elements.

    Example:
        >>> pool = FSPool(channels=4, size=3)
        >>> x = torch.randn(2, 3, 4)
        >>> torch.equal(pool(x), pool(x.flip(1)))
        True
    """

    def __init__(self, channels: int, size: int):
        super().__init__()
        if channels < 1 or size < 1:
            raise ValueError(f"FSPool needs at least one channel and one element, got {channels} and {size}")
        self.channels, self.size = channels, size
        self.weight = nn.Parameter(torch.empty(size, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.size**-0.5)

    def rank_weights(self, size: int, mask: Tensor | None = None) -> Tensor:
        """The weight of each rank: `[size, channels]`, or `[batch, size, channels]` with a mask."""
        if mask is None and size == self.size:
            return self.weight
        rank = torch.arange(size, device=self.weight.device, dtype=self.weight.dtype)
        count = rank.new_tensor(size) if mask is None else mask.sum(dim=1, keepdim=True).to(rank.dtype)
        knot = (rank / (count - 1).clamp(min=1)).clamp(max=1) * (self.size - 1)
        lower = knot.floor().long()
        upper = (lower + 1).clamp(max=self.size - 1)
        return torch.lerp(self.weight[lower], self.weight[upper], (knot - lower).unsqueeze(-1))

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        if features.ndim != 3 or features.shape[-1] != self.channels:
            raise ValueError(f"features are {list(features.shape)}, this pooling takes [batch, size, {self.channels}]")
        features = _checked(features)
        features = features.to(torch.promote_types(features.dtype, self.weight.dtype))  # half precision under autocast
        ranked = collect(features, features, mask)  # every channel sorted; zeros at ranks that a set is too small for
        return (ranked * self.rank_weights(features.shape[1], mask)).sum(dim=1)

    def extra_repr(self) -> str:
        return f"channels={self.channels}, size={self.size}"


POOLS = {"fs": FSPool, "sum": SumPool, "mean": MeanPool, "max": MaxPool}


def _checked(features: Tensor) -> Tensor:
    """The features, in sets of at least one element of at least one number."""
    if features.ndim != 3 or 0 in features.shape[1:]:
        raise ValueError(
            f"features are {list(features.shape)}: a pooling needs [batch, size, channels] with at least one element "
            "and one channel, for sets that may be empty pass padding and a mask"
        )
    return features


def _hide(features: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """`features` with the elements that do not exist replaced by `value`."""
    features = _checked(features)
    return features if mask is None else features.masked_fill(~mask.unsqueeze(-1), value)

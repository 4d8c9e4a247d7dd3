"""Encoders of sets (a small network on every element or pair, then a pooling) and of vectors."""

import torch
from torch import Tensor, nn

from .kernels.linear import through
from .padding import check_mask
from .pooling import POOLS, FSPool
from .pretrained import Pretrained


class SetEncoder(Pretrained):
    """Permutation-invariant encoder: Linear, ReLU, Linear on each element, then a pooling.

    Args:
        dim: numbers in an element.
        hidden: width of the hidden layer.
        latent: length of the vector.
        size: elements per set; if sets differ in size, the largest number.
        pool: "fs", "sum", "mean", "max", or any module that maps `[batch, size, latent]` (and a mask) to
            `[batch, latent]`.

    Example:
        >>> encoder = SetEncoder(dim=2, hidden=16, latent=8, size=5)
        >>> encoder(torch.randn(3, 5, 2)).shape
        torch.Size([3, 8])
    """

    takes = "set"

    def __init__(self, dim: int, hidden: int, latent: int, size: int, pool: str | nn.Module = "fs"):
        super().__init__()
        _check_widths(self, dim=dim, hidden=hidden, latent=latent, size=size)
        self.dim, self.hidden, self.latent, self.size = dim, hidden, latent, size
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, latent))
        self.pool = _make_pool(pool, latent, size)

    def forward(self, sets: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sets `[batch, size, dim]`, mask `[batch, size]` → `[batch, latent]`."""
        sets = checked_sets(sets, self.dim, mask)
        return self.pool(through(self.net, sets), mask)


class RelationEncoder(Pretrained):
    """`SetEncoder` on all ordered pairs of elements. It is a little better and slower: n² rows instead of n.

    Example:
        >>> encoder = RelationEncoder(dim=2, hidden=16, latent=8, size=5)
        >>> encoder(torch.randn(3, 5, 2)).shape
        torch.Size([3, 8])
    """

    takes = "set"

    def __init__(self, dim: int, hidden: int, latent: int, size: int, pool: str | nn.Module = "fs"):
        super().__init__()
        _check_widths(self, dim=dim, hidden=hidden, latent=latent, size=size)
        self.dim, self.hidden, self.latent, self.size = dim, hidden, latent, size
        self.pairs = SetEncoder(2 * dim, hidden, latent, size**2, pool)

    def forward(self, sets: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sets `[batch, size, dim]`, mask `[batch, size]` → `[batch, latent]`."""
        sets = checked_sets(sets, self.dim, mask)
        n = sets.shape[1]
        first = sets.unsqueeze(2).expand(-1, -1, n, -1)
        pairs = torch.cat([first, first.transpose(1, 2)], dim=-1).flatten(1, 2)  # [batch, n * n, 2 * dim]
        both = None if mask is None else (mask.unsqueeze(2) & mask.unsqueeze(1)).flatten(1, 2)
        return self.pairs(pairs, both)

    @property
    def pool(self) -> nn.Module:
        return self.pairs.pool


class VectorEncoder(Pretrained):
    """Encoder of input vectors: three linear layers with a ReLU between them.

    Example:
        >>> encoder = VectorEncoder(dim=4, hidden=16, latent=8)
        >>> encoder(torch.randn(3, 4)).shape
        torch.Size([3, 8])
    """

    takes = "vector"

    def __init__(self, dim: int, hidden: int, latent: int):
        super().__init__()
        _check_widths(self, dim=dim, hidden=hidden, latent=latent)
        self.dim, self.hidden, self.latent = dim, hidden, latent
        self.net = nn.Sequential(
            nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, latent)
        )

    def forward(self, vectors: Tensor) -> Tensor:
        """Vectors `[batch, dim]` → `[batch, latent]`."""
        if vectors.ndim != 2 or vectors.shape[-1] != self.dim:
            raise ValueError(f"vectors are {list(vectors.shape)}, this network takes [batch, {self.dim}]")
        return through(self.net, vectors)


class Standardized(nn.Module):
    """An encoder whose inputs may be in any units: it subtracts a mean and divides by a spread, both measured once.

    Args:
        encoder: an encoder of vectors `[batch, dim]`, or of sets `[batch, size, dim]` with a mask.
        dim: numbers in a vector or an element.

    Example:
        >>> encoder = Standardized(nn.Linear(2, 2, bias=False), dim=2)
        >>> nn.init.eye_(encoder.encoder.weight).shape
        torch.Size([2, 2])
        >>> encoder.measure(torch.tensor([[100.0, 5.0], [300.0, 5.0]]))
        >>> encoder(torch.tensor([[200.0, 5.0], [300.0, 6.0]])).tolist()
        [[0.0, 0.0], [1.0, 1.0]]
    """

    mean: Tensor
    std: Tensor

    def __init__(self, encoder: nn.Module, dim: int) -> None:
        super().__init__()
        self.encoder, self.dim = encoder, dim
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("std", torch.ones(dim))

    def measure(self, rows: Tensor) -> None:
        """Store the mean and the spread of vectors or elements `[rows, dim]`. A constant column keeps its unit."""
        numbers = rows.double()
        std, mean = torch.std_mean(numbers, dim=0, correction=0)
        self.mean.copy_(mean)
        self.std.copy_(torch.where(std > 1e-6 * mean.abs(), std, 1.0))

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        inputs = (inputs - self.mean) / self.std
        return self.encoder(inputs) if mask is None else self.encoder(inputs, mask)


def _check_widths(encoder: nn.Module, **widths: int) -> None:
    """Raise where a network would be built without numbers to pass on."""
    for name, width in widths.items():
        if width < 1:
            raise ValueError(f"{type(encoder).__name__}: {name} is {width}, it must be at least 1")


def _make_pool(pool: str | nn.Module, latent: int, size: int) -> nn.Module:
    if isinstance(pool, nn.Module):
        return pool
    if pool not in POOLS:
        raise ValueError(f"unknown pool {pool!r}: choose one of {', '.join(POOLS)}, or pass a module")
    return FSPool(latent, size) if pool == "fs" else POOLS[pool]()


def checked_sets(sets: Tensor, dim: int, mask: Tensor | None) -> Tensor:
    """The sets `[batch, size, dim]`, size at least 1, zero where the mask (bool `[batch, size]`) says there is nothing.

    What padding holds may be NaN, and that times the zero gradient of an absent element would be NaN in the weights.
    """
    if sets.ndim != 3 or sets.shape[-1] != dim:
        raise ValueError(f"sets are {list(sets.shape)}, this network takes [batch, size, {dim}]")
    if sets.shape[1] == 0:
        raise ValueError("the sets have no place for an element: for sets that may be empty pass padding and a mask")
    if mask is None:
        return sets
    check_mask("mask", mask, sets.shape[:2])
    return sets.masked_fill(~mask.unsqueeze(-1), 0.0)

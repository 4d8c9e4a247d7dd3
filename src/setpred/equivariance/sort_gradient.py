"""The Jacobian of sorting, and `push_apart`, the smallest function built on it that tells equal elements apart."""

import torch
import torch.nn.functional as F
from torch import Tensor


def sort_jacobian(sets: Tensor) -> Tensor:
    """The transposed permutation S^T that sorts each channel in ascending order, ties broken by index.

    For scalar elements, row j is the one-hot rank of element j. The function is then exclusively multiset-equivariant
    and multiset-continuous: equal elements have different ranks, and it does not matter which of them comes first.

    With several channels, each has its own S^T, side by side in a row. Equal elements are still separated in every
    channel, but both properties hold for scalars only: elements that tie in one channel are ordered by their position
    in memory, and equal elements that are moved apart may be ordered differently in different channels.

    Args:
        sets: `[..., n, dim]`.

    Returns:
        `[..., n, dim * n]`.

    >>> sort_jacobian(torch.tensor([[0.3], [0.1], [0.1]]))
    tensor([[0., 0., 1.],
            [1., 0., 0.],
            [0., 1., 0.]])
    """
    ranks = sets.argsort(dim=-2, stable=True).argsort(dim=-2)
    return F.one_hot(ranks, sets.shape[-2]).flatten(-2).to(sets.dtype)


def push_apart(sets: Tensor) -> Tensor:
    """X + ∇g(X) with g(X) = sort(X) · [-1, …, 1]: the smallest element moves down by 1, the largest up by 1.

    For two scalars it is the paper's `push_apart`: [a - 1, b + 1] if a ≤ b, else [a + 1, b - 1].

    Args:
        sets: `[..., n, dim]`; each channel is pushed apart separately.

    Returns:
        `[..., n, dim]`.

    >>> push_apart(torch.tensor([[2.0], [1.0]])).flatten()
    tensor([3., 0.])
    >>> push_apart(torch.tensor([[0.0], [0.0]])).flatten()
    tensor([-1.,  1.])
    """
    n, dim = sets.shape[-2:]
    cotangent = torch.linspace(-1, 1, n, dtype=sets.dtype, device=sets.device)
    return sets + sort_jacobian(sets).unflatten(-1, (dim, n)) @ cotangent

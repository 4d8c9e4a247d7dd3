"""Random multisets, the paper's autoencoding data: every number of every element is standard normal."""

import torch
from torch import Tensor


def random_sets(count: int, size: int, dim: int, seed: int) -> Tensor:
    """`[count, size, dim]`, the same for the same seed.

    >>> random_sets(3, size=2, dim=4, seed=0).shape
    torch.Size([3, 2, 4])
    """
    return torch.randn(count, size, dim, generator=torch.Generator().manual_seed(seed))

"""Random multisets, the paper's autoencoding data: every number of every element is standard normal."""

import torch
from torch import Tensor


def random_sets(count: int, size: int, dim: int, seed: int) -> Tensor:
    """`[count, size, dim]`, the same for the same seed.

    >>> random_sets(3, size=2, dim=4, seed=0).shape
    torch.Size([3, 2, 4])
    """
    return torch.randn(count, size, dim, generator=torch.Generator().manual_seed(seed))


def random_masks(count: int, smallest: int, size: int, seed: int) -> Tensor:
    """`[count, size]`, true for the first elements of each set; every number from `smallest` to `size` is as likely.

    >>> random_masks(100, smallest=2, size=4, seed=0).sum(dim=1).unique().tolist()
    [2, 3, 4]
    """
    counts = torch.randint(smallest, size + 1, (count, 1), generator=torch.Generator().manual_seed(seed))
    return torch.arange(size) < counts

"""What every baseline asks of its input."""

import torch
from torch import Tensor


def check_arguments(sets: Tensor, mask: Tensor | None, dim: int) -> None:
    """Raise unless `sets` is `[batch, n, dim]` with n ≥ 1 and `mask` None or boolean `[batch, n]`."""
    if sets.dim() != 3 or sets.shape[-1] != dim or sets.shape[1] == 0:
        raise ValueError(f"sets have shape {list(sets.shape)}: pass [batch, n, {dim}] with n at least 1")
    if mask is None:
        return
    if mask.dtype != torch.bool or mask.shape != sets.shape[:2]:
        raise ValueError(
            f"mask is {mask.dtype} {list(mask.shape)}: pass torch.bool {list(sets.shape[:2])}, True where valid"
        )

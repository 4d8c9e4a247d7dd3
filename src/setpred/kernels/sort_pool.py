"""Featurewise sort pooling, its residual and the gradient, as one operation.

For features F `[batch, n, channels]`, rank weights w and a vector z:

    g = Σᵢ wᵢ · sort(F)ᵢ        L = ½ mean (g - z)²        ∂L/∂F = (g - z) / channels · w at each element's rank
"""

from __future__ import annotations

import torch
from torch import Tensor

from .dispatch import direct
from .routing import MAX_SIZE, Scratch, padded_width, route


def sort_pool_residual(
    features: Tensor, weight: Tensor, z: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """L `[batch]` and ∂L/∂F `[batch, n, channels]`, both differentiable as often as one likes.

    Args:
        features: `[batch, n, channels]`.
        weight: the weight of each rank, `[n, channels]` or for each example `[batch, n, channels]`.
        z: what the pooled features should be, `[batch, channels]`.
        mask: which elements exist, `[batch, n]`; the others rank last and do not contribute.

    Example:
        >>> features = torch.tensor([[[1.0], [3.0]]])
        >>> loss, grad = sort_pool_residual(features, torch.tensor([[1.0], [-1.0]]), torch.zeros(1, 1))
        >>> loss.tolist(), grad.tolist()
        ([2.0], [[[-2.0], [2.0]]])
    """
    if z.shape != (features.shape[0], features.shape[2]):
        raise ValueError(f"z is {list(z.shape)}, features {list(features.shape)} need {[*features.shape[::2]]}")
    if direct(features, weight, z) and features.shape[1] <= MAX_SIZE:
        return compiled_sort_pool_residual(features, weight if weight.ndim == 3 else weight[None], z, mask)
    return routed_sort_pool_residual(features, weight, z, mask)


def routed_sort_pool_residual(
    features: Tensor, weight: Tensor, z: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The differentiable form, for any device and any type."""
    routed = route(features, weight, mask)
    present = features if mask is None else features.masked_fill(~mask.unsqueeze(-1), 0.0)
    residual = (present * routed).sum(dim=1) - z
    return 0.5 * residual.square().mean(dim=1), residual.unsqueeze(1) / features.shape[2] * routed


def compiled_sort_pool_residual(
    features: Tensor, weight: Tensor, z: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """All in one pass, for float32 on the CPU and without a graph."""
    from .compiled import sort_pool

    batch, n, channels = features.shape
    if weight.shape not in ((1, n, channels), (batch, n, channels)):
        raise ValueError(f"weight is {list(weight.shape)}, features {list(features.shape)} need {[n, channels]}")
    if mask is not None and mask.shape != (batch, n):
        raise ValueError(f"mask is {list(mask.shape)}, features {list(features.shape)} need {[batch, n]}")
    width = padded_width(channels)
    grad = torch.nn.functional.pad(features, (0, width - channels)).contiguous()
    grad = grad.clone() if grad.data_ptr() == features.data_ptr() else grad
    weight, z = (torch.nn.functional.pad(x, (0, width - channels)).contiguous() for x in (weight, z))
    mask = None if mask is None else mask.to(torch.bool).contiguous()
    scratch = Scratch(n)
    bias, loss = features.new_zeros(width), features.new_empty(batch)
    sort_pool(
        grad.data_ptr(),
        bias.data_ptr(),
        0 if mask is None else mask.data_ptr(),
        weight.data_ptr(),
        0 if len(weight) == 1 else 4 * n * width,
        1,
        z.data_ptr(),
        loss.data_ptr(),
        scratch.address,
        batch,
        n,
        width,
        channels,
    )
    return loss, grad if width == channels else grad[..., :channels].contiguous()

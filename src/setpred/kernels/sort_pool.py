"""Featurewise sort pooling, its residual and the gradient, as one operation with two backends.

For features F `[batch, n, channels]`, rank weights w and a vector z:

    g = Σᵢ wᵢ · sort(F)ᵢ        L = ½ mean (g - z)²        ∂L/∂F = (g - z) / channels · w at each element's rank

Each channel is sorted over the set in descending order; equal values keep the order of their indices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .dispatch import numba_runs, readable

MAX_SIZE = 1 << 16  # elements of a set that the compiled sort can number


def sort_pool_residual(
    features: Tensor, weight: Tensor, z: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """L `[batch]` and ∂L/∂F `[batch, n, channels]`, both differentiable (once and again).

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
    weight = weight if weight.ndim == 3 else weight.unsqueeze(0)
    return _sort_pool_residual(features, weight, z, mask)


def torch_sort_pool_residual(features: Tensor, weight: Tensor, z: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The reference: any device, any type. Weight `[1 or batch, n, channels]`."""
    order = _order(features, mask)
    weight = _existing(weight, mask)
    residual = (_existing(features.gather(1, order), mask) * weight).sum(dim=1) - z
    loss = 0.5 * residual.square().mean(dim=1)
    share = residual.unsqueeze(1) / features.shape[2] * weight
    return loss, torch.zeros_like(features).scatter(1, order, share)


def numba_sort_pool_residual(features: Tensor, weight: Tensor, z: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same compiled, for float32 on the CPU."""
    from .compiled import sort_pool

    batch, n, channels = features.shape
    shapes = {"weight": (weight.shape[0], n, channels), "z": (batch, channels), "mask": (batch, n)}
    for name, given in (("weight", weight), ("z", z), ("mask", mask)):
        if given is not None and given.shape != shapes[name]:
            raise ValueError(
                f"{name} is {list(given.shape)}, features {list(features.shape)} need {list(shapes[name])}"
            )
    if weight.shape[0] not in (1, batch):
        raise ValueError(
            f"weight is for {weight.shape[0]} examples, features for {batch}: give one for all or for each"
        )
    width = padded_width(channels)
    grad = _widened(features, width)
    grad = grad.clone(memory_format=torch.contiguous_format) if grad is features else grad
    weight, z = _widened(weight, width).contiguous(), _widened(z, width).contiguous()
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


@torch.library.custom_op("setpred::sort_pool_residual", mutates_args=())
def _sort_pool_residual(features: Tensor, weight: Tensor, z: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    if readable((features, weight, z)) and features.shape[1] <= MAX_SIZE and numba_runs():
        return numba_sort_pool_residual(features, weight, z, mask)
    return torch_sort_pool_residual(features, weight, z, mask)


@_sort_pool_residual.register_fake
def _(features: Tensor, weight: Tensor, z: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    return features.new_empty(features.shape[0]), torch.empty_like(features, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, v_loss: Tensor, v_grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    features, weight, z, mask = ctx.saved_tensors
    channels = features.shape[2]
    order = _order(features.detach(), mask)
    shared, weight = len(weight) == 1, _existing(weight, mask)
    ranked = _existing(features.gather(1, order), mask)
    v_ranked = _existing(v_grad.gather(1, order), mask)
    slope = ((ranked * weight).sum(dim=1) - z).unsqueeze(1) / channels  # [batch, 1, channels]
    v_residual = v_loss[:, None, None] * slope + (v_ranked * weight).sum(dim=1, keepdim=True) / channels
    v_features = torch.zeros_like(features).scatter(1, order, v_residual * weight)
    v_weight = v_residual * ranked + v_ranked * slope
    return v_features, v_weight.sum(dim=0, keepdim=True) if shared else v_weight, -v_residual.squeeze(1), None


_sort_pool_residual.register_autograd(_backward, setup_context=_save)


def _order(features: Tensor, mask: Tensor | None) -> Tensor:
    """The element at each rank, `[batch, n, channels]`: descending, then by index; those masked out last."""
    order = features.sort(dim=1, descending=True, stable=True).indices
    if mask is None:
        return order
    absent = (~mask).to(torch.uint8).unsqueeze(-1).expand_as(order).gather(1, order)
    return order.gather(1, absent.sort(dim=1, stable=True).indices)


def _existing(ranked: Tensor, mask: Tensor | None) -> Tensor:
    """`ranked` `[1 or batch, n, channels]` with zeros at the ranks that the set is too small for."""
    if mask is None:
        return ranked
    rank = torch.arange(mask.shape[1], device=mask.device)
    beyond = rank >= mask.sum(dim=1, keepdim=True)
    return ranked.expand(len(mask), -1, -1).masked_fill(beyond.unsqueeze(-1), 0.0)


class Scratch:
    """Memory for one thread's sorts of sets of n elements, aligned to cache lines."""

    def __init__(self, n: int):
        from .compiled import sort_pool_scratch

        self.memory = torch.empty(sort_pool_scratch(n) + 63, dtype=torch.uint8)
        self.address = (self.memory.data_ptr() + 63) // 64 * 64


def padded_width(channels: int) -> int:
    """Channels rounded up to whole vectors."""
    from .lanes import LANES

    return -(-channels // LANES) * LANES


def _widened(tensor: Tensor, width: int) -> Tensor:
    """`tensor` with zeros appended to its last dimension."""
    missing = width - tensor.shape[-1]
    return torch.nn.functional.pad(tensor, (0, missing)) if missing else tensor

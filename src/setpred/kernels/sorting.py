"""Between ranks and elements: the linear maps that make sort pooling differentiable as often as one likes.

Sorting features F `[batch, n, channels]` over the set gives every element a rank in every channel. `route` sends what
belongs to a rank to the element that holds it; `collect` brings what belongs to an element to its rank. For fixed
ranks both are linear and each is the other's adjoint, so `collect(F, F)` is a sort and nothing else needs a
derivative of its own. Ranks are descending; equal values keep the order of their indices; what is masked comes last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .jit import numba_runs, readable, refuse_transforms
from .slices import pieces, run_on_cores, slices

MAX_SIZE = 1 << 16  # elements of a set that the compiled sort can number


def route(features: Tensor, weight: Tensor, mask: Tensor | None = None) -> Tensor:
    """The weight of each element's rank, `[batch, n, channels]`; zero where the mask says there is none.

    Args:
        features: decide the ranks, `[batch, n, channels]`.
        weight: one for each rank, `[n, channels]` or for each example `[batch, n, channels]`.
        mask: which elements exist, `[batch, n]`.

    Example:
        >>> route(torch.tensor([[[1.0], [3.0]]]), torch.tensor([[10.0], [20.0]])).tolist()
        [[[20.0], [10.0]]]
    """
    refuse_transforms("sort pooling", but_vmap=True)
    return _route(features.detach(), weight if weight.ndim == 3 else weight.unsqueeze(0), mask)


def collect(features: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """The value of the element at each rank, `[batch, n, channels]`; zero at ranks beyond the size of the set.

    Args:
        features: decide the ranks, `[batch, n, channels]`.
        values: one for each element, `[batch, n, channels]`.
        mask: which elements exist, `[batch, n]`.

    Example:
        >>> collect(torch.tensor([[[1.0], [3.0]]]), torch.tensor([[[10.0], [20.0]]])).tolist()
        [[[20.0], [10.0]]]
    """
    refuse_transforms("sort pooling", but_vmap=True)
    return _collect(features.detach(), values, mask, False)


def torch_route(features: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
    """The reference: any device, any type."""
    order = order_of(features, mask)
    return torch.zeros_like(features).scatter(1, order, existing(weight, mask).expand_as(order))


def torch_collect(features: Tensor, values: Tensor, mask: Tensor | None, shared: bool) -> Tensor:
    """The reference: any device, any type. With `shared`, summed over the examples, `[1, n, channels]`."""
    collected = existing(values.gather(1, order_of(features, mask)), mask)
    return collected.sum(dim=0, keepdim=True) if shared else collected


def numba_route(features: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
    """Compiled, for float32 on the CPU."""
    from .ranking import route_rows

    layout = _Layout(features, mask)
    weight = layout.widened(weight)
    routed = torch.empty_like(layout.features)
    step = 0 if len(weight) == 1 else layout.example

    def work(part: slice) -> None:
        scratch = layout.scratch()
        for piece in layout.pieces(part):
            b = piece.start
            addresses = (
                layout.at(b),
                layout.mask_at(b),
                weight.data_ptr() + b * step,
                step,
                routed.data_ptr() + b * layout.example,
            )
            route_rows(*addresses, scratch, piece.stop - b, layout.n, layout.width)

    run_on_cores(work, layout.parts())
    return layout.narrowed(routed)


def numba_collect(features: Tensor, values: Tensor, mask: Tensor | None, shared: bool) -> Tensor:
    """Compiled, for float32 on the CPU."""
    from .ranking import collect_rows

    layout = _Layout(features, mask)
    values = layout.widened(values)
    parts = layout.parts()
    collected = values.new_zeros(len(parts) if shared else len(values), layout.n, layout.width)
    step = 0 if shared else layout.example

    def work(numbered: tuple[int, slice]) -> None:
        (number, part), scratch = numbered, layout.scratch()
        for piece in layout.pieces(part):
            b = piece.start
            out = collected.data_ptr() + (number if shared else b) * layout.example
            addresses = layout.at(b), layout.mask_at(b), values.data_ptr() + b * layout.example, out, step
            collect_rows(*addresses, scratch, piece.stop - b, layout.n, layout.width)

    run_on_cores(work, list(enumerate(parts)))
    return layout.narrowed(collected.sum(dim=0, keepdim=True) if shared else collected)


class _Layout:
    """Features in memory as the compiled loops need them: contiguous, channels filled up to whole vectors."""

    def __init__(self, features: Tensor, mask: Tensor | None):
        self.batch, self.n, self.channels = features.shape
        self.width = padded_width(self.channels)
        self.features = self.widened(features)
        self.mask = None if mask is None else mask.to(torch.bool).contiguous()
        self.example = 4 * self.n * self.width
        self.held: list[Scratch] = []

    def widened(self, tensor: Tensor) -> Tensor:
        missing = self.width - tensor.shape[-1]
        return (torch.nn.functional.pad(tensor, (0, missing)) if missing else tensor).contiguous()

    def narrowed(self, tensor: Tensor) -> Tensor:
        return tensor if self.width == self.channels else tensor[..., : self.channels].contiguous()

    def parts(self) -> list[slice]:
        return slices(self.batch, self.features.numel())

    def pieces(self, part: slice) -> Iterator[slice]:
        return pieces(part, self.n * self.width)

    def at(self, b: int) -> int:
        return self.features.data_ptr() + b * self.example

    def mask_at(self, b: int) -> int:
        return 0 if self.mask is None else self.mask.data_ptr() + b * self.n

    def scratch(self) -> int:
        """Memory of one thread, which lives as long as this."""
        self.held.append(Scratch(self.n))
        return self.held[-1].address


class Scratch:
    """Memory for one thread's sorts of sets of n elements, aligned to cache lines."""

    def __init__(self, n: int):
        from .ranking import sort_scratch

        self.memory = torch.empty(sort_scratch(n) + 63, dtype=torch.uint8, device="cpu")
        self.address = (self.memory.data_ptr() + 63) // 64 * 64


def padded_width(channels: int) -> int:
    """Channels rounded up to whole vectors."""
    from .vectors import LANES

    return -(-channels // LANES) * LANES


@torch.library.custom_op("setpred::route", mutates_args=())
def _route(features: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
    _check(features, weight, mask)
    return numba_route(features, weight, mask) if _compiled(features, weight) else torch_route(features, weight, mask)


@torch.library.custom_op("setpred::collect", mutates_args=())
def _collect(features: Tensor, values: Tensor, mask: Tensor | None, shared: bool) -> Tensor:
    _check(features, values, mask)
    backend = numba_collect if _compiled(features, values) else torch_collect
    return backend(features, values, mask, shared)


@_route.register_fake
def _(features: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
    return torch.empty_like(features, memory_format=torch.contiguous_format)


@_collect.register_fake
def _(features: Tensor, values: Tensor, mask: Tensor | None, shared: bool) -> Tensor:
    return values.new_empty((1 if shared else values.shape[0], *values.shape[1:]))


def _keep_route(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
    features, weight, mask = inputs
    ctx.save_for_backward(features, mask)
    ctx.shared = len(weight) == 1


def _keep_collect(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None, bool], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[2])


def _route_backward(ctx: Any, v: Tensor) -> tuple[None, Tensor, None]:
    features, mask = ctx.saved_tensors
    return None, _collect(features, v, mask, ctx.shared), None


def _collect_backward(ctx: Any, v: Tensor) -> tuple[None, Tensor, None, None]:
    features, mask = ctx.saved_tensors
    return None, _route(features, v, mask), None, None


_route.register_autograd(_route_backward, setup_context=_keep_route)
_collect.register_autograd(_collect_backward, setup_context=_keep_collect)


def _compiled(features: Tensor, other: Tensor) -> bool:
    return readable((features, other)) and features.shape[1] <= MAX_SIZE and numba_runs()


def _check(features: Tensor, weight: Tensor, mask: Tensor | None) -> None:
    batch, n, channels = features.shape
    if n == 0 or channels == 0:
        raise ValueError(f"features are {list(features.shape)}: sets need at least one element of one number")
    if weight.shape not in ((1, n, channels), (batch, n, channels)):
        raise ValueError(f"weight is {list(weight.shape)}, features {list(features.shape)} need {[n, channels]}")
    if mask is not None and mask.shape != (batch, n):
        raise ValueError(f"mask is {list(mask.shape)}, features {list(features.shape)} need {[batch, n]}")


def order_of(features: Tensor, mask: Tensor | None) -> Tensor:
    """The element at each rank, `[batch, n, channels]`."""
    order = features.sort(dim=1, descending=True, stable=True).indices
    if mask is None:
        return order
    absent = (~mask).to(torch.uint8).unsqueeze(-1).expand_as(order).gather(1, order)
    return order.gather(1, absent.sort(dim=1, stable=True).indices)


def existing(ranked: Tensor, mask: Tensor | None) -> Tensor:
    """`ranked` `[1 or batch, n, channels]` with zeros at the ranks that the set is too small for."""
    if mask is None:
        return ranked
    rank = torch.arange(mask.shape[1], device=mask.device)
    beyond = rank >= mask.sum(dim=1, keepdim=True)
    return ranked.expand(mask.shape[0], -1, -1).masked_fill(beyond.unsqueeze(-1), 0.0)

"""The gradient of the inner loss without a graph, at the speed of its four matrix products.

For the plain set encoder g(Y) = pool(relu(Y W₁ᵀ + b₁) W₂ᵀ + b₂) the gradient is written out by hand: what stands
between the products is compiled and works in place, on blocks of examples that fit in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from math import gcd
from typing import cast

import torch
from torch import Tensor, nn

from ..encoders import SetEncoder
from ..pooling import FSPool, MeanPool, SumPool
from .jit import numba_runs, readable, transformed
from .linear import as_torch_made_it
from .plain_gradient import PlainGradient
from .products import layers_of, linears, padded
from .slices import go_on
from .sorting import MAX_SIZE, Scratch


def fast_gradient(
    encoder: nn.Module,
    z: Tensor,
    mask: Tensor | None = None,
    start: Tensor | None = None,
    weight: float = 0.0,
    given: Tensor | None = None,
) -> FastGradient | None:
    """A function from sets to L and ∇L for this encoder, vector and mask, or None where it would not be the same.

    It steps aside for everything but a `SetEncoder` with sort, sum or mean pooling, as this package made it, in
    float32 on the CPU: for subclasses, hooks, parametrisations, replaced layers, tracing and function transforms.

    Args:
        encoder: g.
        z: what the encoding should be, `[batch, latent]`.
        mask: which elements exist, `[batch, size]`.
        start: Y0, `[batch, size, dim]`, where weight · ½ mean (Y - Y0)² over the free entries belongs to L.
        weight: how strongly Y is pulled to it.
        given: which entries are not free, `[batch, size, dim]`: the gradient is zero there.

    Example:
        >>> encoder = SetEncoder(dim=2, hidden=16, latent=8, size=5)
        >>> gradient = fast_gradient(encoder, torch.zeros(3, 8))
        >>> loss, grad = gradient(torch.randn(3, 5, 2))
        >>> loss.shape, grad.shape
        (torch.Size([3]), torch.Size([3, 5, 2]))
    """
    if transformed() or not (_plain(encoder) and readable([z, *encoder.parameters()]) and numba_runs()):
        return None
    if start is not None and not readable([start]):
        return None
    gradient = FastGradient(cast(SetEncoder, encoder), z, mask, start, weight, given)
    return gradient if z.ndim == 2 and z.shape[1] == gradient.channels else None


def plain_gradient(
    encoder: nn.Module,
    z: Tensor,
    mask: Tensor | None = None,
    start: Tensor | None = None,
    weight: float = 0.0,
    given: Tensor | None = None,
) -> PlainGradient | None:
    """As `fast_gradient`, in torch's operations: for the same encoders on any device, in any type."""
    if transformed() or not _plain(encoder):
        return None
    net, pool = cast(SetEncoder, encoder).net, cast(SetEncoder, encoder).pool
    if z.ndim != 2 or z.shape[1] != linears(net)[1].out_features:
        return None
    weights = partial(rank_weights, pool, z, mask)
    return PlainGradient(net, weights, isinstance(pool, FSPool), z, mask, start, weight, given)


class FastGradient:
    """L and ∇L of a batch, again and again with the same buffers; one thread at a time."""

    def __init__(
        self,
        encoder: SetEncoder,
        z: Tensor,
        mask: Tensor | None = None,
        start: Tensor | None = None,
        weight: float = 0.0,
        given: Tensor | None = None,
        rows: int | None = None,
    ):
        from .ranking import sort_pool

        self.layers, self.sort_pool, self.pool = layers_of(encoder.net), sort_pool, encoder.pool
        first, second = linears(encoder.net)
        self.z, self.b2 = padded(z, self.layers.latent), padded(second.bias, self.layers.latent)
        self.mask = None if mask is None else mask.contiguous()
        self.channels, self.rows, self.pull = second.out_features, rows or self.layers.rows, weight
        none = z.detach().new_empty(0, 1)
        self.start = none if start is None else start.detach().flatten(1).contiguous()
        self.given = none.bool() if given is None else given.flatten(1).contiguous()
        self.batch, self.dim = len(z), first.in_features
        self.size = -1  # of the sets that the buffers are made for: none yet

    def __call__(self, sets: Tensor) -> tuple[Tensor, Tensor]:
        """Sets `[batch, size, dim]` → L `[batch]` and ∇L `[batch, size, dim]`."""
        sets = sets.detach().contiguous()
        loss, grad = sets.new_empty(len(sets)), torch.empty_like(sets)
        self.bind(sets, loss, grad)()
        return loss, grad

    def bind(self, sets: Tensor, loss: Tensor, grad: Tensor) -> Callable[[], None]:
        """What writes L and ∇L of what `sets` holds to `loss` and `grad`, each time it is called.

        A loop over the same memory looks up nothing twice.
        """
        batch, n, dim = sets.shape
        if n != self.size or batch != self.batch or dim != self.dim or sets.dtype != torch.float32:
            self._prepare(sets)
        y, dy = sets.view(-1, dim), grad.view(-1, dim)
        runs: list[Callable[[], object]] = []
        for b in range(0, batch, self.block):
            rows = slice(b * n, min(b + self.block, batch) * n)
            hidden, features = (buffer[: rows.stop - rows.start] for buffer in self.buffers)
            forward, backward = self.layers.bind(y[rows], hidden, features, dy[rows])
            runs += [forward, self.sort_pool.bind(*self._pooling(features, b, loss)), backward]
        if len(self.start) or len(self.given):
            from .steps import pulls

            runs.append(pulls(sets, self.start, self.given, self.pull, loss, grad))
        return partial(_run_all, runs, (self, self.scratch, self.weight, sets, loss, grad))

    def _pooling(self, features: Tensor, b: int, loss: Tensor) -> tuple[int, ...]:
        """What `sort_pool` needs for the examples from the b-th on whose features these are."""
        n, width = self.size, self.layers.latent
        return (
            features.data_ptr(),
            self.b2.data_ptr(),
            self.mask_address and self.mask_address + b * n,
            self.weight_address + b * self.weight_step,
            self.weight_step,
            self.ranked,
            self.z.data_ptr() + 4 * b * width,
            loss.data_ptr() + 4 * b,
            self.scratch.address,
            len(features) // n,
            n,
            width,
            self.channels,
        )

    def part(self, examples: slice) -> FastGradient:
        """The gradient of some examples of the batch, with buffers of its own."""
        part = copy(self)
        part.z, part.size = self.z[examples], -1
        part.batch = len(part.z)
        part.mask = None if self.mask is None else self.mask[examples]
        part.start, part.given = (x[examples] if len(x) else x for x in (self.start, self.given))
        return part

    def _prepare(self, sets: Tensor) -> None:
        """Buffers and rank weights for sets of this shape."""
        batch, n, dim = sets.shape
        if batch != self.batch or dim != self.dim or sets.dtype != torch.float32 or not 0 < n <= MAX_SIZE:
            wanted = f"[{self.batch}, size, {self.dim}] torch.float32"
            raise ValueError(f"sets are {list(sets.shape)} {sets.dtype}, this gradient takes {wanted}")
        if any(len(x) and x.shape != (batch, n * dim) for x in (self.start, self.given)):
            raise ValueError(f"sets are {list(sets.shape)}, their start or what is given has another shape")
        if self.mask is not None and (self.mask.shape != (batch, n) or self.mask.dtype != torch.bool):
            found = f"{list(self.mask.shape)} {self.mask.dtype}"
            raise ValueError(f"mask is {found}, the sets need [{batch}, {n}] torch.bool")
        self.size, self.block = n, max(1, min(batch, self.rows // n))
        whole = self.layers.tile // gcd(n, self.layers.tile)  # examples that fill tiles
        self.block -= self.block % whole if self.block > whole else 0
        self.buffers = [self.z.new_empty(self.block * n, wide) for wide in (self.layers.hidden, self.layers.latent)]
        self.scratch = Scratch(n)
        self.ranked = int(isinstance(self.pool, FSPool))
        weight = rank_weights(self.pool, self.z[:, : self.channels], self.mask, n).detach()
        self.weight = padded(weight, self.layers.latent)
        self.weight_address = self.weight.data_ptr()
        self.weight_step = 4 * n * self.layers.latent if weight.ndim == 3 else 0
        self.mask_address = 0 if self.mask is None else self.mask.data_ptr()


def rank_weights(pool: nn.Module, like: Tensor, mask: Tensor | None, n: int) -> Tensor:
    """The pooling of n elements as weights of ranks, `[n, channels]` or `[batch, n, channels]`; `like` is z."""
    if isinstance(pool, FSPool):
        return pool.rank_weights(n, mask)
    ones = like.new_ones(n, like.shape[-1])
    if isinstance(pool, SumPool):
        return ones
    return ones / (n if mask is None else mask.sum(dim=1).clamp(min=1)[:, None, None])


def _run_all(blocks: list[Callable[[], object]], memory: object) -> None:
    """Run the blocks, which know addresses only: whoever holds them holds the memory, too."""
    for block in blocks:
        go_on()
        block()


def _plain(encoder: nn.Module) -> bool:
    """Whether the encoder is exactly what `SetEncoder` builds and computes exactly that."""
    if type(encoder) is not SetEncoder or type(encoder.net) is not nn.Sequential:
        return False
    layers = [type(layer) for layer in encoder.net]
    if layers != [nn.Linear, nn.ReLU, nn.Linear] or type(encoder.pool) not in (FSPool, SumPool, MeanPool):
        return False
    first, _, second = encoder.net
    if first.bias is None or second.bias is None or first.out_features != second.in_features:
        return False
    if isinstance(encoder.pool, FSPool) and encoder.pool.channels != second.out_features:
        return False
    return not torch.nn.modules.module._has_any_global_hook() and all(map(as_torch_made_it, encoder.modules()))

"""The gradient of the inner loss without a graph, at the speed of its four matrix products.

For the plain set encoder g(Y) = pool(relu(Y W₁ᵀ + b₁) W₂ᵀ + b₂) the gradient is written out by hand: what stands
between the products is compiled and works in place, on blocks of examples that fit in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from ..encoders import SetEncoder
from ..pooling import FSPool, MeanPool, SumPool
from .jit import numba_runs, readable, transformed
from .sorting import MAX_SIZE, Scratch, padded_width

ROWS = 1024  # rows of a block: its activations stay in the second-level cache, and the products stay efficient


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
        rows: int = ROWS,
    ):
        from . import loops

        self.kernels = loops
        first, _, second = cast(list[nn.Linear], encoder.net)
        hidden, latent = padded_width(first.out_features), padded_width(second.out_features)
        self.w1, self.b1 = _padded(first.weight, hidden, 0), _padded(first.bias, hidden)
        self.w2, self.b2 = _padded(_padded(second.weight, hidden), latent, 0), _padded(second.bias, latent)
        self.z, self.pool = _padded(z, latent), encoder.pool
        self.mask = None if mask is None else mask.contiguous()
        self.channels, self.rows, self.pull = second.out_features, rows, weight
        self.w1_t, self.w2_t = self.w1.T, self.w2.T
        self.b1_address, self.b2_address, self.z_address = (x.data_ptr() for x in (self.b1, self.b2, self.z))
        none = z.detach().new_empty(0, 1)
        self.start = (none if start is None else start.detach().flatten(1).contiguous()).numpy()
        self.given = (none.bool() if given is None else given.flatten(1).contiguous()).numpy()
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
        blocks = []
        for b in range(0, batch, self.block):
            part = slice(b * n, min(b + self.block, batch) * n)
            blocks.append(self._block(y[part], dy[part], loss.data_ptr() + 4 * b, b))
        if len(self.start) or len(self.given):
            from .loops import pull_rows

            rows, grads = (x.view(batch, n * dim).numpy() for x in (sets, grad))
            blocks.append(partial(pull_rows, rows, self.start, self.given, self.pull, loss.numpy(), grads))
        return partial(_run_all, blocks, (self, self.scratch, self.weight))

    def _block(self, y: Tensor, dy: Tensor, loss: int, b: int) -> Callable[[], None]:
        """The gradient of some examples, from the b-th on: rows `[examples * size, dim]` in and out."""
        n, (width, step), kernels = self.size, self.w2.shape, self.kernels
        rows = len(y)
        hidden, features, back = (x[:rows] for x in self.buffers)
        h, f, g = (x.data_ptr() for x in self.buffers)
        w1, w1_t, w2, w2_t, b1, mm = self.w1, self.w1_t, self.w2, self.w2_t, self.b1_address, torch.mm
        pooling = (
            f,
            self.b2_address,
            self.mask_address and self.mask_address + b * n,
            self.weight_address + b * self.weight_step,
            self.weight_step,
            self.ranked,
            self.z_address + 4 * b * width,
            loss,
            self.scratch.address,
            rows // n,
            n,
            width,
            self.channels,
        )

        def run() -> None:
            mm(y, w1_t, out=hidden)
            kernels.bias_relu(h, b1, rows, step)
            mm(hidden, w2_t, out=features)
            kernels.sort_pool(*pooling)
            mm(features, w2, out=back)
            kernels.relu_gradient(g, h, rows * step)
            mm(back, w1, out=dy)

        return run

    def part(self, examples: slice) -> FastGradient:
        """The gradient of some examples of the batch, with buffers of its own."""
        part = copy(self)
        part.z, part.size = self.z[examples], -1
        part.batch, part.z_address = len(part.z), part.z.data_ptr()
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
        width, step = self.w2.shape
        self.size, self.block = n, max(1, min(batch, self.rows // n))
        shapes = [(self.block * n, step), (self.block * n, width), (self.block * n, step)]
        self.buffers = [self.w1.new_empty(shape) for shape in shapes]
        self.scratch = Scratch(n)
        self.ranked = int(isinstance(self.pool, FSPool))
        weight = self._rank_weights(n).detach()
        self.weight = _padded(weight, width)
        self.weight_address, self.weight_step = self.weight.data_ptr(), 4 * n * width if weight.ndim == 3 else 0
        self.mask_address = 0 if self.mask is None else self.mask.data_ptr()

    def _rank_weights(self, n: int) -> Tensor:
        """The pooling as weights of ranks, `[n, channels]` or `[batch, n, channels]`."""
        if isinstance(self.pool, FSPool):
            return self.pool.rank_weights(n, self.mask)
        ones = self.w1.new_ones(n, self.channels)
        if isinstance(self.pool, SumPool):
            return ones
        return ones / (n if self.mask is None else self.mask.sum(dim=1).clamp(min=1)[:, None, None])


def _run_all(blocks: list[Callable[[], None]], memory: object) -> None:
    """Run the blocks, which know addresses only: whoever holds them holds the memory, too."""
    for block in blocks:
        block()


def _padded(tensor: Tensor, width: int, dim: int = -1) -> Tensor:
    """`tensor`, detached and contiguous, with zeros appended to a dimension."""
    tensor = tensor.detach()
    missing = width - tensor.shape[dim]
    if missing:
        shape = list(tensor.shape)
        shape[dim] = missing
        tensor = torch.cat([tensor, tensor.new_zeros(shape)], dim)
    return tensor.contiguous()


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
    return not torch.nn.modules.module._has_any_global_hook() and not any(map(_altered, encoder.modules()))


def _altered(module: nn.Module) -> bool:
    """Whether calling the module does more than its class says."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module) or module._compiled_call_impl is not None

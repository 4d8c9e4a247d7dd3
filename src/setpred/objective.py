"""The inner problem: how far the encoding of a set is from the vector it should match.

    L(Y) = ½ mean (g(Y) - z)²  +  weight · ½ mean (Y - Y0)²

for each example of the batch by itself. The means run over the latent channels and over the free entries of
the set, so that a step of 1 suits any width.
"""

import inspect
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from .kernels.fast_gradient import FastGradient, fast_gradient, plain_gradient
from .kernels.linear import weights_held_fixed
from .kernels.plain_gradient import PlainGradient


@dataclass
class Objective:
    """L(Y; z) of a batch, its gradient, and which entries of Y are free.

    Args:
        encoder: g, a module that maps `[batch, size, dim]` (and a mask) to `[batch, latent]`.
        z: what the encoding should be, `[batch, latent]`.
        mask: which elements exist, `[batch, size]`.
        start: Y0, `[batch, size, dim]`, if Y is pulled to it.
        weight: how strongly.
        values: the known entries, `[batch, size, dim]`.
        given: which entries are known, `[batch, size, dim]`.
    """

    encoder: nn.Module
    z: Tensor
    mask: Tensor | None = None
    start: Tensor | None = None
    weight: float = 0.0
    values: Tensor | None = None
    given: Tensor | None = None
    _compiled: dict[str, FastGradient | None] = field(default_factory=dict, init=False, repr=False)

    def fill(self, sets: Tensor) -> Tensor:
        """`sets` with the known entries put in."""
        if self.given is None or self.values is None:
            return sets
        return torch.where(self.given, self.values, sets)

    def loss(self, sets: Tensor) -> Tensor:
        """L of each example, `[batch]`."""
        encoding = self.encoder(sets) if self.mask is None else self.encoder(sets, self.mask)
        if encoding.shape != self.z.shape:
            raise ValueError(
                f"the encoder gives {list(encoding.shape)} for sets {list(sets.shape)}, z is {list(self.z.shape)}: "
                "they must agree"
            )
        loss = 0.5 * (encoding - self.z).square().mean(dim=-1)
        if self.start is not None:
            loss = loss + self.weight * self._distance(sets, self.start)
        return loss

    def gradient(self, sets: Tensor, graph: bool = False) -> tuple[Tensor, Tensor]:
        """L `[batch]` and ∇L `[batch, size, dim]`, zero where entries are known.

        With `graph`, ∇L can be differentiated by everything it depends on, `sets` included.
        """
        if not graph:
            written = self.compiled or self.plain
            if written is not None:
                return written(sets)
            sets = sets.detach().requires_grad_()
        with torch.enable_grad(), weights_held_fixed():
            loss = self.loss(self.fill(sets))
            (grad,) = torch.autograd.grad(loss.sum(), sets, create_graph=graph, allow_unused=True)
        if grad is None:
            raise ValueError("the encoding does not depend on the set: the encoder must use its input")
        return (loss, grad) if graph else (loss.detach(), grad)

    @property
    def compiled(self) -> FastGradient | None:
        """The gradient without a graph, compiled, for the encoders that have one; its products are as precise as
        torch's are now."""
        precision = torch.get_float32_matmul_precision()
        if precision not in self._compiled:
            self._compiled[precision] = fast_gradient(*self._parts)
        return self._compiled[precision]

    @cached_property
    def plain(self) -> PlainGradient | None:
        """The gradient without a graph in torch's operations, for the encoders that have one."""
        return plain_gradient(*self._parts)

    @property
    def _parts(self) -> tuple[nn.Module, Tensor, Tensor | None, Tensor | None, float, Tensor | None]:
        return self.encoder, self.z, self.mask, self.start, self.weight, self.given

    def select(self, chosen: Tensor | slice) -> "Objective":
        """The same problem for some examples of the batch."""
        tensors = {name: getattr(self, name) for name in ("z", "mask", "start", "values", "given")}
        return replace(self, **{name: t[chosen] for name, t in tensors.items() if t is not None})

    def _distance(self, sets: Tensor, start: Tensor) -> Tensor:
        square = 0.5 * (sets - start).square()
        if self.given is None:
            return square.mean(dim=(1, 2))
        free = (~self.given).sum(dim=(1, 2)).clamp(min=1)
        return square.masked_fill(self.given, 0.0).sum(dim=(1, 2)) / free


def takes_mask(encoder: nn.Module) -> bool:
    """Whether the encoder can be called with a second argument."""
    try:
        inspect.signature(encoder.forward).bind(None, None)
    except TypeError:
        return False
    return True

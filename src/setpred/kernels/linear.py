"""Linear layers with a graph, multiplied by oneDNN where that is faster than `torch.mm`.

Torch gives products of float32 to the library that it was built with, usually MKL. On some processors that runs at half
the speed of oneDNN, which torch brings along. The derivative of a product is made of products, so one operation serves
forwards, backwards, and backwards through the backward.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .jit import readable, transformed
from .products import MARGIN, VARIABLE, choice, least_times, name_of

WORTH_IT = 1 << 24
"""Multiplications of all layers; below, calling another operation takes longer than it saves."""
ROWS = 256
_here = threading.local()


def through(net: nn.Sequential, rows: Tensor) -> Tensor:
    """`net(rows)` for a net of `Linear` and `ReLU`.

    It is a plain call for everything but layers as torch made them, in float32 on the CPU: for hooks, other
    layers, weights that were computed, autocast, compilers and function transforms; for products that are small; and
    where `torch.mm` is as fast. `SETPRED_PRODUCTS=torch` asks for plain calls.

    >>> net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> through(net, torch.zeros(4, 5, 3)).shape
    torch.Size([4, 5, 2])
    """
    if transformed():  # first, because an export would keep the question of size as a limit on the batch
        return net(rows)
    if not (_large(net, rows) and _as_built(net) and readable([rows, *net.parameters()])):
        return net(rows)
    if torch.is_autocast_enabled("cpu") or not _onednn_is_faster(net):
        return net(rows)
    values = rows.flatten(0, -2)
    for layer in net:
        values = values.relu() if isinstance(layer, nn.ReLU) else multiply(values, layer.weight.T) + layer.bias
    return values.unflatten(0, rows.shape[:-1])


@contextmanager
def weights_held_fixed() -> Iterator[None]:
    """Inside, a backward of this thread makes no gradients of weights.

    Torch asks its own products only for the gradients that `torch.autograd.grad` wants, but other operations for all.
    """
    before, _here.fixed = getattr(_here, "fixed", False), True
    try:
        yield
    finally:
        _here.fixed = before


def as_torch_made_it(module: nn.Module) -> bool:
    """Whether calling the module does no more than its class says."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return not any(hooks) and "forward" not in vars(module) and module._compiled_call_impl is None


def _large(net: nn.Sequential, rows: Tensor) -> bool:
    if rows.ndim < 2 or rows.numel() == 0:
        return False
    return rows.numel() // rows.shape[-1] * sum(p.numel() for p in net.parameters() if p.ndim == 2) >= WORTH_IT


def _as_built(net: nn.Sequential) -> bool:
    if type(net) is not nn.Sequential or torch.nn.modules.module._has_any_global_hook():
        return False
    if not all(type(layer) is nn.ReLU or (type(layer) is nn.Linear and layer.bias is not None) for layer in net):
        return False
    weights = [tensor for layer in net if isinstance(layer, nn.Linear) for tensor in (layer.weight, layer.bias)]
    own = len(weights) == len(list(net.parameters())) and all(weight.is_leaf for weight in weights)
    return own and all(map(as_torch_made_it, net.modules()))


def _onednn_is_faster(net: nn.Sequential) -> bool:
    if os.environ.get(VARIABLE) == "torch" or not torch.backends.mkldnn.is_available():
        return False
    return choice(name_of(net, "linear"), lambda: _measured(net)) == "oneDNN"


def _measured(net: nn.Sequential) -> str:
    """The faster library, by the processor's time for the products of all layers forwards and backwards."""
    pairs: list[tuple[Tensor, Tensor]] = []
    for layer in net:
        if isinstance(layer, nn.Linear):
            x, g = torch.zeros(ROWS, layer.in_features), torch.zeros(ROWS, layer.out_features)
            weight = layer.weight.detach()
            pairs += [(x, weight.T), (g, weight), (g.T, x)]

    def all_by(product: Any) -> None:
        for a, b in pairs:
            product(a, b)

    times = least_times({"torch": partial(all_by, torch.mm), "oneDNN": partial(all_by, _by_onednn)})
    return "oneDNN" if MARGIN * times["oneDNN"] < times["torch"] else "torch"


@torch.library.custom_op("setpred::multiply", mutates_args=())
def multiply(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices of float32 on the CPU, by oneDNN."""
    return _by_onednn(a, b)


@multiply.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, Tensor | None]:
    a, b = ctx.saved_tensors
    left, right = ctx.needs_input_grad
    wanted = right and not getattr(_here, "fixed", False)
    return multiply(v, b.T) if left else None, multiply(v.T, a).T if wanted else None


multiply.register_autograd(_backward, setup_context=_keep)


def _by_onednn(a: Tensor, b: Tensor) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(_dense(a), _dense(b.T), None, "none", [], "")
    return product


def _dense(matrix: Tensor) -> Tensor:
    """A matrix that lies in memory without gaps, by rows or by columns."""
    return matrix if matrix.is_contiguous() or matrix.T.is_contiguous() else matrix.contiguous()

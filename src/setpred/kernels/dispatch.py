"""When the compiled kernels may be called directly, without torch's dispatcher in between."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import torch
from torch import Tensor, nn


@cache
def numba_runs() -> bool:
    """Whether kernels can be compiled here."""
    import numba

    return not getattr(numba.config, "DISABLE_JIT", 0)


def readable(tensors: Iterable[Tensor]) -> bool:
    """Whether these are plain tensors that a kernel can read by their address: float32 on the CPU."""
    return all(
        type(t) in (Tensor, nn.Parameter)
        and t.device.type == "cpu"
        and t.dtype == torch.float32
        and t.layout == torch.strided
        for t in tensors
    )


def transformed() -> bool:
    """Whether something watches or rewrites the operations: a compiler, a function transform, a dispatch mode."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch.autograd.forward_ad._current_level >= 0
    )


def direct(*tensors: Tensor) -> bool:
    """Whether an operation on these tensors is only a computation: no graph, no tracing, nothing to convert."""
    recorded = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return not recorded and not transformed() and readable(tensors) and numba_runs()

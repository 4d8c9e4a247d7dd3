"""Projection of rows on the simplex {y ≥ 0, Σy = total}, with two backends.

The nearest point is y = max(x - τ, 0), with the threshold τ that makes the sum right. On the support S = {y > 0}
the Jacobian takes away the mean, elsewhere it is zero, so a gradient v comes back as v - mean of v over S.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .jit import direct, numba_runs, readable, refuse_transforms


def project_simplex(x: Tensor, total: float = 1.0) -> Tensor:
    """Each row of the last dimension projected on the simplex; differentiable.

    >>> project_simplex(torch.tensor([0.5, 1.0, -3.0])).tolist()
    [0.25, 0.75, 0.0]
    """
    refuse_transforms("the projection on the simplex", but_vmap=True)
    return numba_project_simplex(x, total) if direct(x) else _project_simplex(x, total)


def torch_project_simplex(x: Tensor, total: float) -> Tensor:
    """The reference: any device, any type, by sorting."""
    _check(x)
    # Changes nothing but the rounding: what is total below the largest cannot be in the support.
    x = (x - x.amax(dim=-1, keepdim=True)).clamp(min=-total)
    ranked = x.sort(dim=-1, descending=True).values
    count = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    thresholds = (ranked.cumsum(dim=-1) - total) / count
    support = (ranked > thresholds).sum(dim=-1, keepdim=True).clamp(min=1)
    return (x - thresholds.gather(-1, support - 1)).clamp(min=0.0)


def numba_project_simplex(x: Tensor, total: float) -> Tensor:
    """The same compiled and without a sort, for float32 on the CPU."""
    y = x.detach().clone(memory_format=torch.contiguous_format)
    project_simplex_(y, total)
    return y


def project_simplex_(x: Tensor, total: float = 1.0) -> None:
    """The projection in place, of float32 on the CPU whose rows are contiguous: a slice of larger elements will do.

    >>> sets = torch.tensor([[9.0, 0.5, 1.0, -3.0]])
    >>> project_simplex_(sets[:, 1:])
    >>> sets.tolist()
    [[9.0, 0.25, 0.75, 0.0]]
    """
    from .steps import simplex_rows, simplex_scratch

    _check(x)
    if not in_rows(x):
        raise ValueError(f"x of shape {list(x.shape)} is not made of rows in memory: use project_simplex")
    width, rows = x.shape[-1], _rows(x)
    scratch = torch.empty(simplex_scratch(width), dtype=torch.uint8, device="cpu")
    simplex_rows(rows.data_ptr(), 4 * rows.stride(0), scratch.data_ptr(), len(rows), width, total)


def in_rows(x: Tensor) -> bool:
    """Whether the compiled projection can work on this memory in place."""
    if not (readable((x,)) and numba_runs()):
        return False
    rows = _rows(x)
    return rows.data_ptr() == x.data_ptr() and (x.shape[-1] <= 1 or rows.stride(1) == 1)


def _check(x: Tensor) -> None:
    """A row needs a number: there is no point of the simplex without one."""
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"x has shape {list(x.shape)}: its last dimension needs at least one number")


def _rows(x: Tensor) -> Tensor:
    return x[None] if x.ndim == 1 else x.flatten(0, -2)


@torch.library.custom_op("setpred::project_simplex", mutates_args=())
def _project_simplex(x: Tensor, total: float) -> Tensor:
    if readable((x,)) and numba_runs():
        return numba_project_simplex(x, total)
    return torch_project_simplex(x, total)


@_project_simplex.register_fake
def _(x: Tensor, total: float) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
    ctx.save_for_backward(output > 0)


def _backward(ctx: Any, v: Tensor) -> tuple[Tensor, None]:
    (support,) = ctx.saved_tensors
    kept = v.masked_fill(~support, 0.0)
    mean = kept.sum(dim=-1, keepdim=True) / support.sum(dim=-1, keepdim=True).clamp(min=1)
    return kept - mean.masked_fill(~support, 0.0), None


_project_simplex.register_autograd(_backward, setup_context=_save)

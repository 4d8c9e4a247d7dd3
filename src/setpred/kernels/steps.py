"""Steps of descent in one pass over memory, where nothing is recorded."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from .dispatch import readable


def momentum_steps(
    sets: Tensor, grad: Tensor, velocity: Tensor, clipped: Tensor, clip: float | None = None
) -> Callable[[float, float], None]:
    """Steps of Nesterov's method on this memory, in place, given `lr` and `momentum`; float32 on the CPU.

    Args:
        sets: Y, `[batch, size, dim]`, becomes Y - lr (g + momentum · v).
        grad: g, `[batch, size, dim]`, taken no longer than `clip` in each example; it is not changed.
        velocity: v, `[batch, size, dim]`, becomes momentum · v + g beforehand.
        clipped: `[batch]`, 1 is added for every gradient that was too long.

    Example:
        >>> import torch
        >>> sets, velocity, clipped = torch.zeros(1, 1, 2), torch.zeros(1, 1, 2), torch.zeros(1)
        >>> step = momentum_steps(sets, torch.tensor([[[1.0, -2.0]]]), velocity, clipped)
        >>> step(1.0, 0.5)
        >>> sets.tolist(), velocity.tolist()
        ([[[-1.5, 3.0]]], [[[1.0, -2.0]]])
    """
    from .motion import momentum_rows

    arrays = (sets, grad, velocity)
    if not readable((*arrays, clipped)) or any(x.shape != sets.shape or not x.is_contiguous() for x in arrays):
        shapes = ", ".join(f"{list(x.shape)} {x.dtype}" for x in arrays)
        raise ValueError(
            f"sets, gradient and velocity are {shapes}: they must be alike, contiguous, float32 on the CPU"
        )
    batch = len(sets)
    y, g, v = (x.detach().numpy().reshape(batch, sets[0].numel() if batch else 1) for x in arrays)
    counts, longest = clipped.detach().numpy(), clip or 0.0
    return lambda lr, momentum: momentum_rows(y, g, v, counts, lr, momentum, longest)

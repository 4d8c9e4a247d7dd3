"""Clip and step of Nesterov's method in one pass over memory, in place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

from .jit import compiled, readable


def nesterov_steps(
    sets: Tensor,
    grad: Tensor,
    velocity: Tensor,
    running: Tensor,
    taken: Tensor,
    clipped: Tensor,
    clip: float | None = None,
) -> Callable[[float, float], None]:
    """A function of `lr` and `momentum` that makes a step on this memory, float32 on the CPU.

    Args:
        sets: Y, `[batch, size, dim]`, becomes Y - lr (g + momentum · v).
        grad: g, `[batch, size, dim]`, taken no longer than `clip` in each example; it is not changed.
        velocity: v, `[batch, size, dim]`, becomes momentum · v + g beforehand.
        running: which examples move, `[batch]`, bool.
        taken: `[batch]`, counts the steps of each example.
        clipped: `[batch]`, counts those of its gradients that were too long.

    Example:
        >>> import torch
        >>> sets, velocity, taken, clipped = torch.zeros(1, 1, 2), torch.zeros(1, 1, 2), torch.zeros(1), torch.zeros(1)
        >>> grad, running = torch.tensor([[[1.0, -2.0]]]), torch.tensor([True])
        >>> nesterov_steps(sets, grad, velocity, running, taken, clipped)(1.0, 0.5)
        >>> sets.tolist(), velocity.tolist()
        ([[[-1.5, 3.0]]], [[[1.0, -2.0]]])
    """
    arrays = (sets, grad, velocity)
    if not readable((*arrays, taken, clipped)) or any(x.shape != sets.shape or not x.is_contiguous() for x in arrays):
        shapes = ", ".join(f"{list(x.shape)} {x.dtype}" for x in arrays)
        raise ValueError(
            f"sets, gradient and velocity are {shapes}: they must be alike, contiguous, float32 on the CPU"
        )
    if 0 in sets.shape[1:]:
        raise ValueError(f"sets are {list(sets.shape)}: they need at least one element of one number")
    batch = len(sets)
    y, g, v = (x.detach().numpy().reshape(batch, sets[0].numel() if batch else 1) for x in arrays)
    moving, steps, cuts, longest = running.numpy(), taken.detach().numpy(), clipped.detach().numpy(), float(clip or 0)
    # Python's whole numbers may be longer than any that a compiled function knows.
    return lambda lr, momentum: step_rows(y, g, v, moving, steps, cuts, float(lr), float(momentum), longest)


@compiled
def step_rows(sets, grad, velocity, running, taken, clipped, lr, momentum, clip):
    """Arrays `[batch, entries]` and `[batch]`; a clip of 0 is none."""
    lr, momentum, clip = np.float32(lr), np.float32(momentum), np.float32(clip)
    for b in range(sets.shape[0]):
        if not running[b]:
            continue
        taken[b] += np.float32(1.0)
        y, g, v = sets[b], grad[b], velocity[b]
        scale = np.float32(1.0)
        if clip > 0:
            square = np.float32(0.0)
            for i in range(g.size):
                square += g[i] * g[i]
            norm = np.sqrt(square)
            clipped[b] += np.float32(norm > clip)
            if not norm + np.float32(1e-6) <= clip:  # also where it is not a number, to keep it so
                scale = clip / (norm + np.float32(1e-6))
        for i in range(g.size):
            step = scale * g[i]
            speed = momentum * v[i] + step
            v[i] = speed
            y[i] -= lr * (step + momentum * speed)

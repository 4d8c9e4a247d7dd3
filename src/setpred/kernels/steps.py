"""Between two gradients, compiled: the pull to the start, clip and step of Nesterov's method, the projection.

Each is one pass over float32 memory, in place, and takes neither memory nor the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

from .jit import compiled, readable
from .vectors import (
    FLOATS,
    LANES,
    add_above,
    add_up,
    copy,
    fill,
    keep_larger,
    largest,
    lower,
    read_float,
    shift,
    write_float,
)


@compiled
def pull_rows(sets, start, given, weight, loss, grad):
    """Add weight · ½ mean (Y - Y0)² to the loss and its gradient to the gradient, which becomes zero where given.

    Arrays `[batch, entries]`, loss `[batch]`. The mean runs over the entries that are not given; `start` or `given` of
    no rows is none.
    """
    pulled, partly = start.shape[0] > 0, given.shape[0] > 0
    for b in range(sets.shape[0]):
        g = grad[b]
        if pulled:
            y, y0 = sets[b], start[b]
            free = g.size
            if partly:
                free = max(free - given[b].sum(), 1)
            scale = np.float32(weight / free)
            square = np.float32(0.0)
            for i in range(g.size):
                way = y[i] - y0[i]
                if partly and given[b, i]:
                    way = np.float32(0.0)
                square += way * way
                g[i] += scale * way
            loss[b] += np.float32(0.5) * scale * square
        if partly:
            hidden = given[b]
            for i in range(g.size):
                if hidden[i]:
                    g[i] = np.float32(0.0)


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


def simplex_scratch(width: int) -> int:
    """Bytes of scratch that `simplex_rows` needs."""
    return (-(-width // LANES) + 2) * FLOATS


@compiled
def simplex_rows(values, row, scratch, rows, width, total):
    """Project each row of `width` floats, `row` bytes apart, on the simplex, in place.

    Michelot's algorithm: the threshold rises until the entries above it are those that define it.
    """
    whole = width // LANES * FLOATS
    padded = (width + LANES - 1) // LANES * FLOATS
    sums, counts = scratch + padded, scratch + padded + FLOATS
    for i in range(rows):
        x = values + i * row
        for at in range(0, whole, FLOATS):
            copy(scratch + at, x + at)
        if padded > whole:
            fill(scratch + whole, np.float32(-np.inf))
            for at in range(whole, 4 * width, 4):
                write_float(scratch + at, read_float(x + at))
        copy(sums, scratch)
        for at in range(FLOATS, padded, FLOATS):
            keep_larger(sums, scratch + at)
        peak = largest(sums)
        for at in range(0, padded, FLOATS):  # relative to the largest, sums of large values keep their digits
            shift(scratch + at, peak)
        threshold, support = np.float32(-total), np.float32(0.0)  # the largest, now 0, is at most total above it
        for _ in range(width + 1):  # rounding could make it swing for ever
            before = support
            add_above(scratch, scratch + padded, threshold, sums, counts)
            support = add_up(counts)
            if support == before:
                break
            threshold = (add_up(sums) - np.float32(total)) / support
        for at in range(0, padded, FLOATS):
            lower(scratch + at, threshold)
        for at in range(0, whole, FLOATS):
            copy(x + at, scratch + at)
        for at in range(whole, 4 * width, 4):
            write_float(x + at, read_float(scratch + at))

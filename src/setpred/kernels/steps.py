"""Between two gradients, compiled: the pull to the start, clip and step of Nesterov's method, the projection.

Each is one pass over float32 memory, in place, and takes neither memory nor the interpreter's lock. The entries of an
example are taken sixteen at a time, and those that are left over one at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .jit import readable
from .machine_code import Address, Double, Float, Instruction, Integer, Kernel
from .vectors import (
    F32,
    FLOATS,
    I8,
    LANES,
    Builder,
    add_above,
    add_up,
    constant,
    copy,
    fill,
    keep_larger,
    largest,
    load,
    lower,
    read_flag,
    read_float,
    shift,
    splat,
    store,
    vector,
    write_float,
)


def _zero_where(b: Builder, given: Address, x: Any, lanes: int) -> Any:
    """`x` with zeros where the flags at an address are set."""
    flags = b.load(b.inttoptr(given, vector(I8, lanes).as_pointer()), align=1)
    return b.select(b.icmp_unsigned("!=", flags, constant(I8, 0, lanes)), constant(F32, 0.0, lanes), x)


def _hide(lanes: int) -> Any:
    @Instruction
    def hide(b: Builder, grad: Address, given: Address) -> None:
        """`grad = 0` where given."""
        store(b, _zero_where(b, given, load(b, grad, lanes), lanes), grad)

    return hide


def _pull(lanes: int) -> Any:
    @Instruction
    def pull(
        b: Builder, y: Address, y0: Address, given: Address, grad: Address, squares: Address, scale: Float
    ) -> None:
        """`grad += scale * (y - y0)`, and the squares of the differences are added to `squares`; 0 where given."""
        difference = _zero_where(b, given, b.fsub(load(b, y, lanes), load(b, y0, lanes)), lanes)
        store(b, b.fadd(load(b, squares, lanes), b.fmul(difference, difference)), squares)
        pulled = b.fadd(load(b, grad, lanes), b.fmul(splat(b, scale, lanes), difference))
        store(b, _zero_where(b, given, pulled, lanes), grad)

    return pull


def _add_square(lanes: int) -> Any:
    @Instruction
    def add_square(b: Builder, squares: Address, grad: Address) -> None:
        """`squares += grad²`."""
        g = load(b, grad, lanes)
        store(b, b.fadd(load(b, squares, lanes), b.fmul(g, g)), squares)

    return add_square


def _move(lanes: int) -> Any:
    @Instruction
    def move(
        b: Builder, y: Address, grad: Address, velocity: Address, scale: Float, momentum: Float, lr: Float
    ) -> None:
        """`v = momentum * v + scale * grad`, then `y -= lr * (scale * grad + momentum * v)`."""
        kept, rate = splat(b, momentum, lanes), splat(b, lr, lanes)
        step = b.fmul(splat(b, scale, lanes), load(b, grad, lanes))
        speed = b.fadd(b.fmul(kept, load(b, velocity, lanes)), step)
        store(b, speed, velocity)
        store(b, b.fsub(load(b, y, lanes), b.fmul(rate, b.fadd(step, b.fmul(kept, speed)))), y)

    return move


hide_many, hide_one = (_hide(lanes) for lanes in (LANES, 1))
pull_many, pull_one = (_pull(lanes) for lanes in (LANES, 1))
add_squares, add_square = (_add_square(lanes) for lanes in (LANES, 1))
move_many, move_one = (_move(lanes) for lanes in (LANES, 1))


def pulls(
    sets: Tensor, start: Tensor, given: Tensor, weight: float, loss: Tensor, grad: Tensor
) -> Callable[[], object]:
    """What adds weight · ½ mean (Y - Y0)² to the loss and its gradient to the gradient, which becomes zero where given.

    Sets and gradient are `[batch, size, dim]`, start and given `[batch, entries]`, the loss is `[batch]`; all are
    contiguous. The mean runs over the entries that are not given; `start` or `given` of no rows is none.
    """
    batch, entries = len(sets), sets[0].numel()
    if not len(start):
        return hide_flagged.bind(grad.data_ptr(), given.data_ptr(), grad.numel())
    free = start.new_full((batch,), entries, dtype=torch.float64)
    if len(given):
        free = (entries - given.sum(dim=1)).clamp(min=1).double()
    flags = given if len(given) else given.new_zeros(entries)
    scales, squares = (weight / free).float(), start.new_empty(LANES)
    addresses = (x.data_ptr() for x in (sets, start, flags, scales, loss, grad, squares))
    run = pull_rows.bind(*addresses, entries if len(given) else 0, batch, entries)
    held = flags, scales, squares  # the kernel knows addresses only

    def pull(held: object = held) -> None:
        run()

    return pull


@Kernel
def hide_flagged(grad: Address, given: Address, count: Integer) -> None:
    """`grad = 0` where given, both of so many numbers."""
    whole = count // LANES * LANES
    for i in range(0, whole, LANES):
        hide_many(grad + 4 * i, given + i)
    for i in range(whole, count):
        hide_one(grad + 4 * i, given + i)


@Kernel
def pull_rows(
    sets: Address,
    start: Address,
    given: Address,
    scales: Address,
    loss: Address,
    grad: Address,
    squares: Address,
    given_row: Integer,
    batch: Integer,
    entries: Integer,
) -> None:
    """`pulls`; `scales` is the weight over the number of free entries, `squares` a row of scratch."""
    whole = entries // LANES * LANES
    for b in range(batch):
        y, y0, g = sets + 4 * b * entries, start + 4 * b * entries, grad + 4 * b * entries
        flags, scale = given + b * given_row, read_float(scales + 4 * b)
        fill(squares, np.float32(0.0))
        for i in range(0, whole, LANES):
            pull_many(y + 4 * i, y0 + 4 * i, flags + i, g + 4 * i, squares, scale)
        for i in range(whole, entries):
            pull_one(y + 4 * i, y0 + 4 * i, flags + i, g + 4 * i, squares, scale)
        write_float(loss + 4 * b, read_float(loss + 4 * b) + np.float32(0.5) * scale * add_up(squares))


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
    examples = (taken, clipped, running)
    if not all(x.is_contiguous() and len(x) == len(sets) for x in examples) or running.dtype != torch.bool:
        raise ValueError("taken, clipped and running must be contiguous, one number per example, running of bools")
    batch, entries = len(sets), sets[0].numel() if len(sets) else 0
    squares = torch.empty(LANES)
    addresses = [x.data_ptr() for x in (sets, grad, velocity, running, taken, clipped, squares)]
    held = sets, grad, velocity, running, taken, clipped, squares  # the kernel knows addresses only

    def step(lr: float, momentum: float, held: object = held) -> None:
        step_rows(*addresses, batch, entries, float(lr), float(momentum), float(clip or 0))

    return step


@Kernel
def step_rows(
    sets: Address,
    grad: Address,
    velocity: Address,
    running: Address,
    taken: Address,
    clipped: Address,
    squares: Address,
    batch: Integer,
    entries: Integer,
    lr: Double,
    momentum: Double,
    clip: Double,
) -> None:
    """`nesterov_steps`; a clip of 0 is none, `squares` a row of scratch."""
    rate, kept, longest = np.float32(lr), np.float32(momentum), np.float32(clip)
    whole = entries // LANES * LANES
    for b in range(batch):
        if not read_flag(running + b):
            continue
        write_float(taken + 4 * b, read_float(taken + 4 * b) + np.float32(1.0))
        y, g, v = sets + 4 * b * entries, grad + 4 * b * entries, velocity + 4 * b * entries
        scale = np.float32(1.0)
        if longest > 0:
            fill(squares, np.float32(0.0))
            for i in range(0, whole, LANES):
                add_squares(squares, g + 4 * i)
            for i in range(whole, entries):
                add_square(squares, g + 4 * i)
            norm = np.float32(math.sqrt(add_up(squares)))
            if norm > longest:
                write_float(clipped + 4 * b, read_float(clipped + 4 * b) + np.float32(1.0))
            if not norm + np.float32(1e-6) <= longest:  # also where it is not a number, to keep it so
                scale = longest / (norm + np.float32(1e-6))
        for i in range(0, whole, LANES):
            move_many(y + 4 * i, g + 4 * i, v + 4 * i, scale, kept, rate)
        for i in range(whole, entries):
            move_one(y + 4 * i, g + 4 * i, v + 4 * i, scale, kept, rate)


def simplex_scratch(width: int) -> int:
    """Bytes of scratch that `simplex_rows` needs."""
    return (-(-width // LANES) + 2) * FLOATS


@Kernel
def simplex_rows(values: Address, row: Integer, scratch: Address, rows: Integer, width: Integer, total: Double) -> None:
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

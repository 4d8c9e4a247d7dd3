"""Sort pooling, compiled: sixteen channels of a set are sorted in step, and what belongs to a rank is routed.

The comparisons of a sorting network do not depend on the values, so all channels make the same ones. Float32,
contiguous, addresses in bytes; widths are multiples of `LANES`. Nothing here allocates or takes the interpreter's lock;
the callers own the memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from .machine_code import Address, Instruction, Integer, Kernel
from .vectors import (
    F64,
    FLOATS,
    I64,
    KEYS,
    LANES,
    Builder,
    add_ranked,
    add_up,
    copy,
    encode,
    encode_last,
    fetch_add,
    fill,
    intrinsic,
    multiply,
    multiply_add,
    read_flag,
    residual,
    route,
    route_pair,
    write_float,
)

Pairs = tuple[tuple[int, int], ...]


def odd_even_merge(n: int) -> Pairs:
    """Batcher's odd-even merge sort of n values as pairs (i, j), i < j: after all of them the smallest is at 0.

    >>> odd_even_merge(3)
    ((0, 1), (0, 2), (1, 2))
    """
    powers = [1 << k for k in range((n - 1).bit_length())]
    return tuple(
        (i, i + step)
        for number, run in enumerate(powers, start=1)
        for step in reversed(powers[:number])
        for start in range(step % run, n - step, 2 * step)
        for i in range(start, min(start + step, n - step))
        if i // (2 * run) == (i + step) // (2 * run)
    )


def bitonic_merge(n: int) -> Pairs:
    """The pairs that sort n = 2ᵏ values which first rise and then fall, or the other way round.

    >>> bitonic_merge(4)
    ((0, 2), (1, 3), (0, 1), (2, 3))
    """
    steps = [n >> shift for shift in range(1, n.bit_length())]
    return tuple((i, i + step) for step in steps for i in range(n) if not i & step)


def _order(b: Builder, addresses: list[Any], pairs: Pairs) -> None:
    """Order the rows of keys at these addresses by the pairs, half a row at a time, in registers."""

    def choose(name: str, x: Any, y: Any) -> Any:  # a comparison would become a masked store, and the next load wait
        function = intrinsic(b, f"llvm.{name}num.v{x.type.count}f64", x.type, 2)
        return b.call(function, [x, y], fastmath=("nnan", "nsz"))

    half = ir.VectorType(F64, LANES // 2)
    for offset in (0, KEYS // 2):
        pointers = [b.inttoptr(b.add(row, ir.Constant(I64, offset)), half.as_pointer()) for row in addresses]
        rows = [b.load(pointer, align=8) for pointer in pointers]
        for i, j in pairs:
            rows[i], rows[j] = choose("min", rows[i], rows[j]), choose("max", rows[i], rows[j])
        for row, pointer in zip(rows, pointers, strict=True):
            b.store(row, pointer, align=8)


def _on_consecutive_rows(count: int, pairs: Pairs) -> Any:
    @Instruction
    def order(b: Builder, keys: Address) -> None:
        _order(b, [b.add(keys, ir.Constant(I64, i * KEYS)) for i in range(count)], pairs)

    return order


def _on_rows_apart(pairs: Pairs) -> Any:
    @Instruction
    def order(b: Builder, first: Address, second: Address, third: Address, fourth: Address) -> None:
        _order(b, [first, second, third, fourth], pairs)

    return order


sort_2, sort_4, sort_8, sort_16 = (_on_consecutive_rows(n, odd_even_merge(n)) for n in (2, 4, 8, 16))
merge_16 = _on_consecutive_rows(16, bitonic_merge(16))
fold = _on_rows_apart(((0, 3), (1, 2), (0, 1), (2, 3)))
cross = _on_rows_apart(((0, 2), (1, 3), (0, 1), (2, 3)))
pair_up = _on_rows_apart(((0, 2), (1, 3)))


def sort_scratch(n: int) -> int:
    """Bytes of scratch that a loop with a sort needs for sets of n elements, aligned to 64."""
    return padded_rows(n) * KEYS + n * FLOATS + 2 * FLOATS


def padded_rows(n: int) -> int:
    """The power of two that is at least n."""
    rows = 1
    while rows < n:
        rows *= 2
    return rows


def sort_keys(keys: Address, rows: Integer) -> None:
    """Sort each lane of `rows` rows of keys, a power of two: bitonic, several steps at a time in registers."""
    if rows < 16:
        if rows == 8:
            sort_8(keys)
        elif rows == 4:
            sort_4(keys)
        elif rows == 2:
            sort_2(keys)
        return
    end = keys + rows * KEYS
    for at in range(keys, end, 16 * KEYS):
        sort_16(at)
    run = 16 * KEYS
    while keys + run < end:  # runs of this length are sorted; merge two and two
        for low in range(keys, end, 2 * run):
            high = low + 2 * run - KEYS
            for i in range(0, run // 2, KEYS):
                fold(low + i, low + run // 2 + i, high - run // 2 - i, high - i)
        step = run // 4
        while step > 16 * KEYS:
            for low in range(keys, end, 2 * step):
                for at in range(low, low + step // 2, KEYS):
                    cross(at, at + step // 2, at + step, at + step + step // 2)
            step //= 4
        if step == 16 * KEYS:
            for low in range(keys, end, 2 * step):
                for at in range(low, low + step, 2 * KEYS):
                    pair_up(at, at + KEYS, at + step, at + step + KEYS)
        for at in range(keys, end, 16 * KEYS):
            merge_16(at)
        run *= 2


def rank_block(x: Address, row: Integer, bias: Address, mask: Address, keys: Address, n: Integer) -> None:
    """Sort one block of channels of one example: `x` its first element, rows `row` bytes apart."""
    rows = padded_rows(n)
    for i in range(n):
        if mask == 0 or read_flag(mask + i):
            encode(keys + i * KEYS, x + i * row, bias, i * LANES)
        else:
            encode_last(keys + i * KEYS, i * LANES)
    for i in range(n, rows):
        encode_last(keys + i * KEYS, i * LANES)
    sort_keys(keys, rows)


@Kernel
def route_rows(
    features: Address,
    mask: Address,
    weight: Address,
    weight_step: Integer,
    out: Address,
    scratch: Address,
    batch: Integer,
    n: Integer,
    width: Integer,
) -> None:
    """`out[b, i] = weight[b, rank of i]`, zero where masked; `weight_step` bytes from one example's to the next's."""
    row = 4 * width
    keys, routed = scratch, scratch + padded_rows(n) * KEYS
    nothing = routed + n * FLOATS
    fill(nothing, np.float32(0.0))
    for b in range(batch):
        own = 0 if mask == 0 else mask + b * n
        for at in range(0, row, FLOATS):
            place = b * n * row + at
            rank_block(features + place, row, nothing, own, keys, n)
            for i in range(n):
                route(keys + i * KEYS, weight + b * weight_step + at + i * row, routed)
            for i in range(n):
                if mask == 0 or read_flag(own + i):
                    copy(out + place + i * row, routed + i * FLOATS)
                else:
                    fill(out + place + i * row, np.float32(0.0))


@Kernel
def collect_rows(
    features: Address,
    mask: Address,
    values: Address,
    out: Address,
    out_step: Integer,
    scratch: Address,
    batch: Integer,
    n: Integer,
    width: Integer,
) -> None:
    """`out[b, k] += values[b, element of rank k]` for the ranks that exist; with no `out_step`, all into one."""
    row = 4 * width
    keys, staged = scratch, scratch + padded_rows(n) * KEYS
    nothing = staged + n * FLOATS
    fill(nothing, np.float32(0.0))
    for b in range(batch):
        own = 0 if mask == 0 else mask + b * n
        count = n
        if mask != 0:
            count = 0
            for i in range(n):
                count += read_flag(own + i)
        for at in range(0, row, FLOATS):
            place = b * n * row + at
            rank_block(features + place, row, nothing, own, keys, n)
            for i in range(n):
                copy(staged + i * FLOATS, values + place + i * row)
            for k in range(count):
                fetch_add(keys + k * KEYS, staged, out + b * out_step + at + k * row)


@Kernel
def sort_pool(
    features: Address,
    bias: Address,
    mask: Address,
    weight: Address,
    weight_step: Integer,
    ranked: Integer,
    z: Address,
    loss: Address,
    scratch: Address,
    batch: Integer,
    n: Integer,
    width: Integer,
    channels: Integer,
) -> None:
    """Sort each channel of `features + bias`, weigh by rank, compare with z; the gradient replaces the features.

    Args:
        features: `[batch, n, width]`, of which the first `channels` count; in place.
        bias: `[width]`.
        mask: `[batch, n]` bytes, or 0 for none.
        weight: `[n, width]`, `weight_step` bytes from one example to the next.
        ranked: 0 leaves the elements in their order, which makes this a weighted sum.
        z: `[batch, width]`.
        loss: `[batch]`, ½ mean over the channels of (g - z)².
    """
    row = 4 * width
    keys, routed = scratch, scratch + padded_rows(n) * KEYS
    total = routed + n * FLOATS
    squares = total + FLOATS
    scale = np.float32(1.0 / channels)
    zero = np.float32(0.0)
    for b in range(batch):
        fill(squares, zero)
        count = n
        if mask != 0:
            count = 0
            for i in range(n):
                count += read_flag(mask + b * n + i)
        for at in range(0, row, FLOATS):
            x = features + b * n * row + at
            w = weight + b * weight_step + at
            fill(total, zero)
            if ranked and (n > 2 or mask != 0):
                rank_block(x, row, bias + at, 0 if mask == 0 else mask + b * n, keys, n)
                for i in range(n):
                    route(keys + i * KEYS, w + i * row, routed)
                for i in range(count):  # by rank: the sum has the same bits for any order of the elements
                    add_ranked(total, keys + i * KEYS, w + i * row)
            else:
                if ranked and n == 2:
                    route_pair(x, x + row, bias + at, w, w + row, routed)
                else:
                    for i in range(n):
                        copy(routed + i * FLOATS, w + i * row)
                for i in range(n):
                    if mask == 0 or read_flag(mask + b * n + i):
                        multiply_add(total, x + i * row, bias + at, routed + i * FLOATS)
            if mask != 0:
                for i in range(n):
                    if not read_flag(mask + b * n + i):
                        fill(routed + i * FLOATS, zero)
            residual(total, z + b * row + at, squares, scale)
            for i in range(n):
                multiply(x + i * row, total, routed + i * FLOATS)
        write_float(loss + 4 * b, add_up(squares) * scale * np.float32(0.5))

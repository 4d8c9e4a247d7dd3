"""The loops between the matrix products, compiled for the CPU. Float32, contiguous, addresses in bytes.

Nothing here allocates or takes the interpreter's lock; the callers own the memory. Widths are multiples of
`LANES`.
"""

from __future__ import annotations

import numpy as np

from .jit import compiled
from .networks import cross, fold, merge_16, pair_up, sort_2, sort_4, sort_8, sort_16
from .vectors import (
    KEYS,
    LANES,
    add_above,
    add_ranked,
    add_up,
    copy,
    encode,
    encode_last,
    fetch_add,
    fill,
    keep_where_positive,
    lower,
    multiply,
    multiply_add,
    read_flag,
    read_float,
    relu,
    residual,
    route,
    route_pair,
    shift,
    write_float,
)

FLOATS = 4 * LANES  # bytes of a row of floats


def sort_scratch(n: int) -> int:
    """Bytes of scratch that a loop with a sort needs for sets of n elements, aligned to 64."""
    return padded_rows(n) * KEYS + n * FLOATS + 2 * FLOATS


@compiled
def padded_rows(n):
    """The power of two that is at least n."""
    rows = 1
    while rows < n:
        rows *= 2
    return rows


@compiled
def sort_keys(keys, rows):
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


@compiled
def rank_block(x, row, bias, mask, keys, n):
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


@compiled
def route_rows(features, mask, weight, weight_step, out, scratch, batch, n, width):
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


@compiled
def collect_rows(features, mask, values, out, out_step, scratch, batch, n, width):
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


@compiled
def sort_pool(features, bias, mask, weight, weight_step, ranked, z, loss, scratch, batch, n, width, channels):
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


@compiled
def bias_relu(hidden, bias, rows, width):
    """`hidden = max(hidden + bias, 0)`, hidden `[rows, width]`."""
    for i in range(rows):
        for at in range(0, 4 * width, FLOATS):
            relu(hidden + i * 4 * width + at, bias + at)


@compiled
def relu_gradient(grad, hidden, count):
    """Zero the gradient where the activation is."""
    for at in range(0, 4 * count, FLOATS):
        keep_where_positive(grad + at, hidden + at)


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
        largest = read_float(x)
        for at in range(4, 4 * width, 4):
            largest = max(largest, read_float(x + at))
        for at in range(0, padded, FLOATS):  # relative to the largest, sums of large values keep their digits
            shift(scratch + at, largest)
        threshold, support = np.float32(-total), np.float32(0.0)  # the largest, now 0, is at most total above it
        for _ in range(width + 1):  # rounding could make it swing for ever
            before = support
            fill(sums, np.float32(0.0))
            fill(counts, np.float32(0.0))
            for at in range(0, padded, FLOATS):
                add_above(scratch + at, threshold, sums, counts)
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

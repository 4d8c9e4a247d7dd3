"""Matrix products of many rows with the same weights, a tile of the result at a time in registers.

Every entry is added up over k from first to last, in one sum, whatever the tile it lies in. So equal rows give equal
bits wherever they lie in memory and however many others there are, which libraries do not promise. Weights are packed
once, in panels as wide as a tile; bias, rectifier and gate are applied while the tile is still in registers.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
from llvmlite import ir
from torch import Tensor

from .machine_code import Address, Float, Instruction, Integer, Kernel
from .vectors import (
    F32,
    FLOATS,
    I64,
    LANES,
    Builder,
    constant,
    intrinsic,
    keep_where_positive,
    load,
    relu,
    splat,
    store,
    vector,
)

# Rows and vectors of a tile: its sums, a row of weights and one factor fill the registers, 32 of 16 floats or 16 of 8.
ROWS, VECTORS = (8, 2) if llvmlite.binding.get_host_cpu_features().get("avx512f") else (6, 1)
PANEL = VECTORS * LANES


def packed(weights: Tensor) -> Tensor:
    """The factor B `[k, width]` of a product A B as `[panels, k, PANEL]`, filled up with zeros."""
    k, width = weights.shape
    panels = -(-width // PANEL)
    filled = weights.new_zeros(panels, k, PANEL)
    whole = width // PANEL
    filled[:whole] = weights[:, : whole * PANEL].unflatten(1, (whole, PANEL)).transpose(0, 1)
    filled[whole:, :, : width - whole * PANEL] = weights[:, whole * PANEL :]
    return filled


def _tile(rows: int) -> Any:
    """The instruction that makes `rows` rows of one panel."""

    @Instruction
    def tile(
        b: Builder,
        a: Address,
        a_row: Integer,
        weights: Address,
        k: Integer,
        bias: Address,
        least: Float,
        gate: Address,
        gate_row: Integer,
        out: Address,
        out_row: Integer,
    ) -> None:
        """`out = max(A B + bias, least)`, zero where the gate is not above 0; rows lie `_row` bytes apart."""
        floats, zero, one = vector(F32), ir.Constant(I64, 0), ir.Constant(I64, 1)
        multiply_add = intrinsic(b, f"llvm.fma.v{LANES}f32", floats, 3)

        def at(base: Any, row: Any, r: int, v: int) -> Any:
            return b.add(b.add(base, b.mul(row, ir.Constant(I64, r))), ir.Constant(I64, 4 * LANES * v))

        tiles = [(r, v) for r in range(rows) for v in range(VECTORS)]
        factors = [b.inttoptr(at(a, a_row, r, 0), F32.as_pointer()) for r in range(rows)]
        biases = [load(b, at(bias, zero, 0, v)) for v in range(VECTORS)]
        before, loop, end = b.block, b.append_basic_block("loop"), b.append_basic_block("end")
        b.branch(loop)
        b.position_at_end(loop)
        i, panel, *sums = (b.phi(kind) for kind in (I64, I64, *(floats for _ in tiles)))
        right = [load(b, at(panel, zero, 0, v)) for v in range(VECTORS)]
        left = [splat(b, b.load(b.gep(factor, [i]), align=4)) for factor in factors]
        added = [b.call(multiply_add, [left[r], right[v], total]) for (r, v), total in zip(tiles, sums, strict=True)]
        following = b.add(i, one), b.add(panel, ir.Constant(I64, 4 * PANEL)), *added
        first = zero, weights, *(biases[v] for _, v in tiles)
        for variable, start, then in zip((i, panel, *sums), first, following, strict=True):
            variable.add_incoming(start, before)
            variable.add_incoming(then, loop)
        b.cbranch(b.icmp_signed("<", following[0], k), loop, end)
        b.position_at_end(end)
        lowest = splat(b, least)
        for (r, v), total in zip(tiles, added, strict=True):
            total = b.select(b.fcmp_ordered("<=", total, lowest), lowest, total)  # a NaN stays one
            closed = b.fcmp_ordered("<=", load(b, at(gate, gate_row, r, v)), constant(F32, 0.0))
            store(b, b.select(closed, constant(F32, 0.0), total), at(out, out_row, r, v))

    return tile


tile_of_many, tile_of_4, tile_of_2, tile_of_1 = (_tile(rows) for rows in (ROWS, 4, 2, 1))


@Kernel
def multiply_rows(
    a: Address,
    a_row: Integer,
    weights: Address,
    k: Integer,
    panels: Integer,
    bias: Address,
    least: Float,
    gate: Address,
    gate_row: Integer,
    out: Address,
    out_row: Integer,
    rows: Integer,
) -> None:
    """`out = max(A B + bias, least)`, zero where the gate is not above 0; the gate may be what is written to.

    Args:
        a: A `[rows, k]`, k at least 1; this and the other rows lie `_row` bytes apart.
        weights: B as `packed` makes it.
        bias: `[panels * PANEL]`.
        least: 0 rectifies, -inf does not.
        gate: `[rows, panels * PANEL]`, or one row of ones with a `gate_row` of 0.
        out: `[rows, panels * PANEL]`.
    """
    for column in range(0, panels * PANEL * 4, PANEL * 4):
        w, bias_here = weights + column * k, bias + column
        r = 0
        while r < rows:
            x, g, o = a + r * a_row, gate + r * gate_row + column, out + r * out_row + column
            if r + ROWS <= rows:
                tile_of_many(x, a_row, w, k, bias_here, least, g, gate_row, o, out_row)
                r += ROWS
            elif r + 4 <= rows:
                tile_of_4(x, a_row, w, k, bias_here, least, g, gate_row, o, out_row)
                r += 4
            elif r + 2 <= rows:
                tile_of_2(x, a_row, w, k, bias_here, least, g, gate_row, o, out_row)
                r += 2
            else:
                tile_of_1(x, a_row, w, k, bias_here, least, g, gate_row, o, out_row)
                r += 1


@Kernel
def bias_relu(hidden: Address, bias: Address, rows: Integer, width: Integer) -> None:
    """`hidden = max(hidden + bias, 0)`, hidden `[rows, width]`."""
    for i in range(rows):
        for at in range(0, 4 * width, FLOATS):
            relu(hidden + i * 4 * width + at, bias + at)


@Kernel
def relu_gradient(grad: Address, hidden: Address, count: Integer) -> None:
    """Zero the gradient where the activation is."""
    for at in range(0, 4 * count, FLOATS):
        keep_where_positive(grad + at, hidden + at)

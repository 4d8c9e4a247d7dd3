"""Sixteen channels at a time: the vector instructions that the compiled kernels are written in.

Numba's compiler vectorises a loop when it feels like it; a sort is only fast if every step is a vector
instruction. These intrinsics take addresses and emit vectors of sixteen lanes, which LLVM maps to
whatever the processor has.

The code on disk is keyed by the file of the kernels: after a change here, touch `compiled.py` too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numba.extending
from llvmlite import ir
from numba import types

intrinsic: Any = numba.extending.intrinsic  # called with other arguments than it is written with

LANES = 16

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
F32, F64 = ir.FloatType(), ir.DoubleType()


def vector(element: ir.Type) -> ir.Type:
    return ir.VectorType(element, LANES)


def constant(element: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(vector(element), [value] * LANES)


def splat(b: Any, scalar: Any) -> Any:
    undefined = ir.Constant(vector(scalar.type), ir.Undefined)
    first = b.insert_element(undefined, scalar, ir.Constant(I32, 0))
    return b.shuffle_vector(first, undefined, constant(I32, 0))


def load(b: Any, address: Any) -> Any:
    return b.load(b.inttoptr(address, vector(F32).as_pointer()), align=4)


def store(b: Any, value: Any, address: Any) -> None:
    b.store(value, b.inttoptr(address, value.type.as_pointer()), align=4)


def emits(emit: Callable[..., Any], returns: Any = types.void) -> Callable[..., Any]:
    """The code generator of an intrinsic whose arguments are all 64-bit integers or 32-bit floats."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = emit(builder, *args)
        return context.get_dummy_value() if returns is types.void else value

    return codegen


@intrinsic
def multiply_add(typing: Any, total: Any, features: Any, bias: Any, routed: Any) -> Any:
    """`total += (features + bias) * routed`."""

    def emit(b: Any, total: Any, features: Any, bias: Any, routed: Any) -> None:
        x = b.fadd(load(b, features), load(b, bias))
        store(b, b.fadd(load(b, total), b.fmul(x, load(b, routed))), total)

    return types.void(types.int64, types.int64, types.int64, types.int64), emits(emit)


@intrinsic
def multiply(typing: Any, out: Any, left: Any, right: Any) -> Any:
    """`out = left * right`."""

    def emit(b: Any, out: Any, left: Any, right: Any) -> None:
        store(b, b.fmul(load(b, left), load(b, right)), out)

    return types.void(types.int64, types.int64, types.int64), emits(emit)


@intrinsic
def fill(typing: Any, out: Any, value: Any) -> Any:
    """`out = value` in every lane."""

    def emit(b: Any, out: Any, value: Any) -> None:
        store(b, splat(b, value), out)

    return types.void(types.int64, types.float32), emits(emit)


@intrinsic
def residual(typing: Any, total: Any, z: Any, squares: Any, scale: Any) -> Any:
    """`total - z`: its square is added to `squares`, and `total` becomes it times `scale`."""

    def emit(b: Any, total: Any, z: Any, squares: Any, scale: Any) -> None:
        r = b.fsub(load(b, total), load(b, z))
        store(b, b.fadd(load(b, squares), b.fmul(r, r)), squares)
        store(b, b.fmul(r, splat(b, scale)), total)

    return types.void(types.int64, types.int64, types.int64, types.float32), emits(emit)


@intrinsic
def relu(typing: Any, out: Any, bias: Any) -> Any:
    """`out = max(out + bias, 0)`, a NaN stays one."""

    def emit(b: Any, out: Any, bias: Any) -> None:
        x = b.fadd(load(b, out), load(b, bias))
        zero = constant(F32, 0.0)
        store(b, b.select(b.fcmp_ordered("<=", x, zero), zero, x), out)

    return types.void(types.int64, types.int64), emits(emit)


@intrinsic
def keep_where_positive(typing: Any, out: Any, activation: Any) -> Any:
    """`out = out where activation > 0, else 0`."""

    def emit(b: Any, out: Any, activation: Any) -> None:
        zero = constant(F32, 0.0)
        dead = b.fcmp_ordered("<=", load(b, activation), zero)
        store(b, b.select(dead, zero, load(b, out)), out)

    return types.void(types.int64, types.int64), emits(emit)


@intrinsic
def read_float(typing: Any, address: Any) -> Any:
    """The float32 at an address."""

    def emit(b: Any, address: Any) -> Any:
        return b.load(b.inttoptr(address, F32.as_pointer()), align=4)

    return types.float32(types.int64), emits(emit, types.float32)


@intrinsic
def write_float(typing: Any, address: Any, value: Any) -> Any:
    """Store a float32 at an address."""

    def emit(b: Any, address: Any, value: Any) -> None:
        b.store(value, b.inttoptr(address, F32.as_pointer()), align=4)

    return types.void(types.int64, types.float32), emits(emit)


@intrinsic
def read_flag(typing: Any, address: Any) -> Any:
    """The byte at an address, as an integer."""

    def emit(b: Any, address: Any) -> Any:
        return b.zext(b.load(b.inttoptr(address, I8.as_pointer()), align=1), I64)

    return types.int64(types.int64), emits(emit, types.int64)


@intrinsic
def add_above(typing: Any, values: Any, threshold: Any, total: Any, count: Any) -> Any:
    """Add to `total` the values above the threshold, to `count` how many they are."""

    def emit(b: Any, values: Any, threshold: Any, total: Any, count: Any) -> None:
        x, zero = load(b, values), constant(F32, 0.0)
        above = b.fcmp_ordered(">", x, splat(b, threshold))
        store(b, b.fadd(load(b, total), b.select(above, x, zero)), total)
        store(b, b.fadd(load(b, count), b.select(above, constant(F32, 1.0), zero)), count)

    return types.void(types.int64, types.float32, types.int64, types.int64), emits(emit)


@intrinsic
def shift(typing: Any, values: Any, amount: Any) -> Any:
    """`values = values - amount`."""

    def emit(b: Any, values: Any, amount: Any) -> None:
        store(b, b.fsub(load(b, values), splat(b, amount)), values)

    return types.void(types.int64, types.float32), emits(emit)


@intrinsic
def lower(typing: Any, values: Any, threshold: Any) -> Any:
    """`values = max(values - threshold, 0)`, a NaN stays one."""

    def emit(b: Any, values: Any, threshold: Any) -> None:
        x, zero = b.fsub(load(b, values), splat(b, threshold)), constant(F32, 0.0)
        store(b, b.select(b.fcmp_ordered("<=", x, zero), zero, x), values)

    return types.void(types.int64, types.float32), emits(emit)


@intrinsic
def add_up(typing: Any, values: Any) -> Any:
    """The sum of the lanes."""

    def emit(b: Any, values: Any) -> Any:
        x, width = load(b, values), LANES
        while width > 1:
            width //= 2
            half = [ir.Constant(ir.VectorType(I32, width), list(range(s, s + width))) for s in (0, width)]
            x = b.fadd(b.shuffle_vector(x, x, half[0]), b.shuffle_vector(x, x, half[1]))
        return b.extract_element(x, ir.Constant(I32, 0))

    return types.float32(types.int64), emits(emit, types.float32)


@intrinsic
def copy(typing: Any, out: Any, values: Any) -> Any:
    """`out = values`."""

    def emit(b: Any, out: Any, values: Any) -> None:
        store(b, load(b, values), out)

    return types.void(types.int64, types.int64), emits(emit)

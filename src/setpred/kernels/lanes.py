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

_I8, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()


def compiled(function: Callable[..., Any]) -> Any:
    """`function` as machine code that runs without the interpreter's lock, kept on disk where possible."""
    try:
        return numba.njit(function, nogil=True, error_model="numpy", cache=True)
    except RuntimeError:  # no folder to write to: compile again in every process
        return numba.njit(function, nogil=True, error_model="numpy")


def _vector(element: ir.Type) -> ir.Type:
    return ir.VectorType(element, LANES)


def _constant(element: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(_vector(element), [value] * LANES)


def _splat(b: Any, scalar: Any) -> Any:
    undefined = ir.Constant(_vector(scalar.type), ir.Undefined)
    first = b.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    return b.shuffle_vector(first, undefined, _constant(_I32, 0))


def _load(b: Any, address: Any, element: ir.Type = _F32) -> Any:
    return b.load(b.inttoptr(address, _vector(element).as_pointer()), align=4)


def _store(b: Any, value: Any, address: Any) -> None:
    b.store(value, b.inttoptr(address, value.type.as_pointer()), align=4)


def _emits(emit: Callable[..., Any], returns: Any = types.void) -> Callable[..., Any]:
    """The code generator of an intrinsic whose arguments are all 64-bit integers or 32-bit floats."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = emit(builder, *args)
        return context.get_dummy_value() if returns is types.void else value

    return codegen


def _address_of_lane(b: Any, base: Any, lane: int, width: int) -> Any:
    return b.add(base, ir.Constant(_I64, lane * width))


@intrinsic
def exchange(typing: Any, first: Any, second: Any) -> Any:
    """Order two rows of keys: the smaller of each lane goes to `first`, the larger to `second`."""

    def emit(b: Any, first: Any, second: Any) -> None:
        x, y = _load(b, first, _I64), _load(b, second, _I64)
        smaller = b.icmp_signed("<", x, y)
        _store(b, b.select(smaller, x, y), first)
        _store(b, b.select(smaller, y, x), second)

    return types.void(types.int64, types.int64), _emits(emit)


@intrinsic
def encode(typing: Any, keys: Any, features: Any, bias: Any, place: Any) -> Any:
    """Write keys whose ascending order is the descending order of `features + bias`, ties by place.

    The high half is the float's bits made monotone, the low half is `place + lane`.
    Adding 0.0 makes -0.0 tie with 0.0; a NaN sorts first, as in torch.
    """

    def emit(b: Any, keys: Any, features: Any, bias: Any, place: Any) -> None:
        x = b.fadd(b.fadd(_load(b, features), _load(b, bias)), _constant(_F32, 0.0))
        x = b.select(b.fcmp_unordered("uno", x, x), _constant(_F32, float("nan")), x)
        bits = b.bitcast(x, _vector(_I32))
        sign = b.ashr(bits, _constant(_I32, 31))
        descending = b.not_(b.xor(bits, b.and_(sign, _constant(_I32, 0x7FFFFFFF))))
        high = b.shl(b.zext(descending, _vector(_I64)), _constant(_I64, 32))
        _store(b, b.or_(high, _places(b, place)), keys)

    return types.void(types.int64, types.int64, types.int64, types.int64), _emits(emit)


@intrinsic
def encode_last(typing: Any, keys: Any, place: Any) -> Any:
    """Write keys that come after every feature, for an element that is masked out."""

    def emit(b: Any, keys: Any, place: Any) -> None:
        _store(b, b.or_(_constant(_I64, 0x7FFFFFFF << 32), _places(b, place)), keys)

    return types.void(types.int64, types.int64), _emits(emit)


def _places(b: Any, place: Any) -> Any:
    return b.add(_splat(b, place), ir.Constant(_vector(_I64), list(range(LANES))))


@intrinsic
def route(typing: Any, keys: Any, weight: Any, routed: Any) -> Any:
    """Send the weight of a rank to the places that hold this rank: `routed[place of key] = weight`."""

    def emit(b: Any, keys: Any, weight: Any, routed: Any) -> None:
        for lane in range(LANES):
            place = b.load(b.inttoptr(_address_of_lane(b, keys, lane, 8), _I32.as_pointer()), align=4)
            value = b.load(b.inttoptr(_address_of_lane(b, weight, lane, 4), _I32.as_pointer()), align=4)
            offset = b.shl(b.zext(place, _I64), ir.Constant(_I64, 2))
            b.store(value, b.inttoptr(b.add(routed, offset), _I32.as_pointer()), align=4)

    return types.void(types.int64, types.int64, types.int64), _emits(emit)


@intrinsic
def multiply_add(typing: Any, total: Any, features: Any, bias: Any, routed: Any) -> Any:
    """`total += (features + bias) * routed`."""

    def emit(b: Any, total: Any, features: Any, bias: Any, routed: Any) -> None:
        x = b.fadd(_load(b, features), _load(b, bias))
        _store(b, b.fadd(_load(b, total), b.fmul(x, _load(b, routed))), total)

    return types.void(types.int64, types.int64, types.int64, types.int64), _emits(emit)


@intrinsic
def multiply(typing: Any, out: Any, left: Any, right: Any) -> Any:
    """`out = left * right`."""

    def emit(b: Any, out: Any, left: Any, right: Any) -> None:
        _store(b, b.fmul(_load(b, left), _load(b, right)), out)

    return types.void(types.int64, types.int64, types.int64), _emits(emit)


@intrinsic
def fill(typing: Any, out: Any, value: Any) -> Any:
    """`out = value` in every lane."""

    def emit(b: Any, out: Any, value: Any) -> None:
        _store(b, _splat(b, value), out)

    return types.void(types.int64, types.float32), _emits(emit)


@intrinsic
def residual(typing: Any, total: Any, z: Any, squares: Any, scale: Any) -> Any:
    """`total - z`: its square is added to `squares`, and `total` becomes it times `scale`."""

    def emit(b: Any, total: Any, z: Any, squares: Any, scale: Any) -> None:
        r = b.fsub(_load(b, total), _load(b, z))
        _store(b, b.fadd(_load(b, squares), b.fmul(r, r)), squares)
        _store(b, b.fmul(r, _splat(b, scale)), total)

    return types.void(types.int64, types.int64, types.int64, types.float32), _emits(emit)


@intrinsic
def relu(typing: Any, out: Any, bias: Any) -> Any:
    """`out = max(out + bias, 0)`, a NaN stays one."""

    def emit(b: Any, out: Any, bias: Any) -> None:
        x = b.fadd(_load(b, out), _load(b, bias))
        zero = _constant(_F32, 0.0)
        _store(b, b.select(b.fcmp_ordered("<=", x, zero), zero, x), out)

    return types.void(types.int64, types.int64), _emits(emit)


@intrinsic
def keep_where_positive(typing: Any, out: Any, activation: Any) -> Any:
    """`out = out where activation > 0, else 0`."""

    def emit(b: Any, out: Any, activation: Any) -> None:
        zero = _constant(_F32, 0.0)
        dead = b.fcmp_ordered("<=", _load(b, activation), zero)
        _store(b, b.select(dead, zero, _load(b, out)), out)

    return types.void(types.int64, types.int64), _emits(emit)


@intrinsic
def read_float(typing: Any, address: Any) -> Any:
    """The float32 at an address."""

    def emit(b: Any, address: Any) -> Any:
        return b.load(b.inttoptr(address, _F32.as_pointer()), align=4)

    return types.float32(types.int64), _emits(emit, types.float32)


@intrinsic
def write_float(typing: Any, address: Any, value: Any) -> Any:
    """Store a float32 at an address."""

    def emit(b: Any, address: Any, value: Any) -> None:
        b.store(value, b.inttoptr(address, _F32.as_pointer()), align=4)

    return types.void(types.int64, types.float32), _emits(emit)


@intrinsic
def read_int(typing: Any, address: Any) -> Any:
    """The int64 at an address."""

    def emit(b: Any, address: Any) -> Any:
        return b.load(b.inttoptr(address, _I64.as_pointer()), align=8)

    return types.int64(types.int64), _emits(emit, types.int64)


@intrinsic
def read_flag(typing: Any, address: Any) -> Any:
    """The byte at an address, as an integer."""

    def emit(b: Any, address: Any) -> Any:
        return b.zext(b.load(b.inttoptr(address, _I8.as_pointer()), align=1), _I64)

    return types.int64(types.int64), _emits(emit, types.int64)


@intrinsic
def add_above(typing: Any, values: Any, threshold: Any, total: Any, count: Any) -> Any:
    """Add to `total` the values above the threshold, to `count` how many they are."""

    def emit(b: Any, values: Any, threshold: Any, total: Any, count: Any) -> None:
        x, zero = _load(b, values), _constant(_F32, 0.0)
        above = b.fcmp_ordered(">", x, _splat(b, threshold))
        _store(b, b.fadd(_load(b, total), b.select(above, x, zero)), total)
        _store(b, b.fadd(_load(b, count), b.select(above, _constant(_F32, 1.0), zero)), count)

    return types.void(types.int64, types.float32, types.int64, types.int64), _emits(emit)


@intrinsic
def lower(typing: Any, values: Any, threshold: Any) -> Any:
    """`values = max(values - threshold, 0)`, a NaN stays one."""

    def emit(b: Any, values: Any, threshold: Any) -> None:
        x, zero = b.fsub(_load(b, values), _splat(b, threshold)), _constant(_F32, 0.0)
        _store(b, b.select(b.fcmp_ordered("<=", x, zero), zero, x), values)

    return types.void(types.int64, types.float32), _emits(emit)


@intrinsic
def add_up(typing: Any, values: Any) -> Any:
    """The sum of the lanes."""

    def emit(b: Any, values: Any) -> Any:
        x, width = _load(b, values), LANES
        while width > 1:
            width //= 2
            half = [ir.Constant(ir.VectorType(_I32, width), list(range(s, s + width))) for s in (0, width)]
            x = b.fadd(b.shuffle_vector(x, x, half[0]), b.shuffle_vector(x, x, half[1]))
        return b.extract_element(x, ir.Constant(_I32, 0))

    return types.float32(types.int64), _emits(emit, types.float32)


@intrinsic
def copy(typing: Any, out: Any, values: Any) -> Any:
    """`out = values`."""

    def emit(b: Any, out: Any, values: Any) -> None:
        _store(b, _load(b, values), out)

    return types.void(types.int64, types.int64), _emits(emit)

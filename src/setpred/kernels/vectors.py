"""Sixteen channels at a time: the vector instructions that the compiled loops are written in.

Numba's compiler vectorises a loop when it feels like it; a sort is only fast if every step is a vector instruction.
These instructions take addresses and emit vectors of sixteen lanes, which LLVM maps to whatever the processor has.

To sort sixteen channels in step, features become keys, which `ranking.py` orders. A key is a float64, since processors
find the smaller of two floats faster than of two integers. All keys have the same exponent; the mantissa holds the
feature's bits made monotone (32 bits), then its place (20 bits).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from .machine_code import Address, Float, Instruction, Integer

Builder = Any

LANES = 16
FLOATS = 4 * LANES  # bytes of a row of floats
KEYS = 8 * LANES  # bytes of a row of keys
PLACE_BITS = 20

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
F32, F64 = ir.FloatType(), ir.DoubleType()


def vector(element: ir.Type, lanes: int = LANES) -> ir.Type:
    return ir.VectorType(element, lanes)


def constant(element: ir.Type, value: float, lanes: int = LANES) -> ir.Constant:
    return ir.Constant(vector(element, lanes), [value] * lanes)


def splat(b: Builder, scalar: Any, lanes: int = LANES) -> Any:
    undefined = ir.Constant(vector(scalar.type, lanes), ir.Undefined)
    first = b.insert_element(undefined, scalar, ir.Constant(I32, 0))
    return b.shuffle_vector(first, undefined, constant(I32, 0, lanes))


def intrinsic(b: Builder, name: str, kind: ir.Type, arguments: int) -> Any:
    """A function of LLVM's, whose arguments and result have this type."""
    signature = ir.FunctionType(kind, [kind] * arguments)
    return b.module.globals.get(name) or ir.Function(b.module, signature, name)


def load(b: Builder, address: Address, lanes: int = LANES) -> Any:
    return b.load(b.inttoptr(address, vector(F32, lanes).as_pointer()), align=4)


def store(b: Builder, value: Any, address: Address) -> None:
    b.store(value, b.inttoptr(address, value.type.as_pointer()), align=4)


def rectified(b: Builder, x: Any) -> Any:
    """`max(x, 0)`, a NaN stays one."""
    zero = constant(F32, 0.0)
    return b.select(b.fcmp_ordered("<=", x, zero), zero, x)


@Instruction
def read_float(b: Builder, address: Address) -> Float:
    return b.load(b.inttoptr(address, F32.as_pointer()), align=4)


@Instruction
def write_float(b: Builder, address: Address, value: Float) -> None:
    b.store(value, b.inttoptr(address, F32.as_pointer()), align=4)


@Instruction
def read_flag(b: Builder, address: Address) -> Integer:
    """The byte at an address."""
    return b.zext(b.load(b.inttoptr(address, I8.as_pointer()), align=1), I64)


@Instruction
def fill(b: Builder, out: Address, value: Float) -> None:
    """`out = value` in every lane."""
    store(b, splat(b, value), out)


@Instruction
def copy(b: Builder, out: Address, values: Address) -> None:
    """`out = values`."""
    store(b, load(b, values), out)


@Instruction
def shift(b: Builder, values: Address, amount: Float) -> None:
    """`values = values - amount`."""
    store(b, b.fsub(load(b, values), splat(b, amount)), values)


@Instruction
def lower(b: Builder, values: Address, threshold: Float) -> None:
    """`values = max(values - threshold, 0)`."""
    store(b, rectified(b, b.fsub(load(b, values), splat(b, threshold))), values)


@Instruction
def multiply(b: Builder, out: Address, left: Address, right: Address) -> None:
    """`out = left * right`."""
    store(b, b.fmul(load(b, left), load(b, right)), out)


@Instruction
def multiply_add(b: Builder, total: Address, features: Address, bias: Address, routed: Address) -> None:
    """`total += (features + bias) * routed`."""
    x = b.fadd(load(b, features), load(b, bias))
    store(b, b.fadd(load(b, total), b.fmul(x, load(b, routed))), total)


@Instruction
def residual(b: Builder, total: Address, z: Address, squares: Address, scale: Float) -> None:
    """`total - z`: its square is added to `squares`, and `total` becomes it times `scale`."""
    r = b.fsub(load(b, total), load(b, z))
    store(b, b.fadd(load(b, squares), b.fmul(r, r)), squares)
    store(b, b.fmul(r, splat(b, scale)), total)


@Instruction
def relu(b: Builder, out: Address, bias: Address) -> None:
    """`out = max(out + bias, 0)`."""
    store(b, rectified(b, b.fadd(load(b, out), load(b, bias))), out)


@Instruction
def keep_where_positive(b: Builder, out: Address, activation: Address) -> None:
    """`out = out where activation > 0, else 0`."""
    zero = constant(F32, 0.0)
    store(b, b.select(b.fcmp_ordered("<=", load(b, activation), zero), zero, load(b, out)), out)


@Instruction
def add_above(b: Builder, values: Address, end: Address, threshold: Float, total: Address, count: Address) -> None:
    """Write to `total` the sum of the values up to `end` above the threshold, lane by lane, to `count` their number."""
    floor, zero = splat(b, threshold), constant(F32, 0.0)
    before, loop, done = b.block, b.append_basic_block("loop"), b.append_basic_block("done")
    b.branch(loop)
    b.position_at_end(loop)
    at, sums, counts = (b.phi(kind) for kind in (I64, vector(F32), vector(F32)))
    x = load(b, at)
    above = b.fcmp_ordered(">", x, floor)
    following = (
        b.add(at, ir.Constant(I64, FLOATS)),
        b.fadd(sums, b.select(above, x, zero)),
        b.fadd(counts, b.select(above, constant(F32, 1.0), zero)),
    )
    for variable, start, then in zip((at, sums, counts), (values, zero, zero), following, strict=True):
        variable.add_incoming(start, before)
        variable.add_incoming(then, loop)
    b.cbranch(b.icmp_signed("<", following[0], end), loop, done)
    b.position_at_end(done)
    store(b, following[1], total)
    store(b, following[2], count)


@Instruction
def keep_larger(b: Builder, out: Address, values: Address) -> None:
    """`out = max(out, values)`, passing over a NaN of the values."""
    x, before = load(b, values), load(b, out)
    store(b, b.select(b.fcmp_ordered(">", x, before), x, before), out)


@Instruction
def largest(b: Builder, values: Address) -> Float:
    """The largest of the lanes."""
    return _folded(b, load(b, values), lambda x, y: b.select(b.fcmp_ordered(">", x, y), x, y))


@Instruction
def add_up(b: Builder, values: Address) -> Float:
    """The sum of the lanes."""
    return _folded(b, load(b, values), b.fadd)


def _folded(b: Builder, x: Any, join: Callable[[Any, Any], Any]) -> Any:
    """The lanes joined, one half with the other until one is left."""
    width = LANES
    while width > 1:
        width //= 2
        half = [ir.Constant(ir.VectorType(I32, width), list(range(s, s + width))) for s in (0, width)]
        x = join(b.shuffle_vector(x, x, half[0]), b.shuffle_vector(x, x, half[1]))
    return b.extract_element(x, ir.Constant(I32, 0))


@Instruction
def encode(b: Builder, keys: Address, features: Address, bias: Address, place: Integer) -> None:
    """Write keys whose ascending order is the descending order of `features + bias`, ties by place.

    Adding 0.0 makes -0.0 tie with 0.0; a NaN sorts first, as in torch.
    """
    x = b.fadd(b.fadd(load(b, features), load(b, bias)), constant(F32, 0.0))
    x = b.select(b.fcmp_unordered("uno", x, x), constant(F32, float("nan")), x)
    bits = b.bitcast(x, vector(I32))
    sign = b.ashr(bits, constant(I32, 31))
    descending = b.xor(bits, b.xor(b.or_(sign, constant(I32, 1 << 31)), constant(I32, -1)))
    high = b.shl(b.zext(descending, vector(I64)), constant(I64, PLACE_BITS))
    store(b, b.or_(high, _low_bits(b, place)), keys)


@Instruction
def encode_last(b: Builder, keys: Address, place: Integer) -> None:
    """Write keys that come after every feature, for an element that is masked out."""
    store(b, b.or_(constant(I64, 0xFFFFFFFF << PLACE_BITS), _low_bits(b, place)), keys)


def _low_bits(b: Builder, place: Integer) -> Any:
    """The places of the keys, `place + lane`, below the exponent that they all have."""
    exponent = (1023 + 52) << 52
    return b.add(splat(b, place), ir.Constant(vector(I64), [exponent + lane for lane in range(LANES)]))


@Instruction
def add_ranked(b: Builder, total: Address, keys: Address, weight: Address) -> None:
    """`total += weight * (the feature with its bias that a key was made of)`."""
    pointer = b.inttoptr(keys, vector(I64).as_pointer())
    descending = b.trunc(b.lshr(b.load(pointer, align=8), constant(I64, PLACE_BITS)), vector(I32))
    positive = b.xor(b.ashr(descending, constant(I32, 31)), constant(I32, -1))
    x = b.bitcast(b.xor(descending, b.and_(positive, constant(I32, (1 << 31) - 1))), vector(F32))
    store(b, b.fadd(load(b, total), b.fmul(x, load(b, weight))), total)


def _at_place(b: Builder, base: Address, keys: Address, lane: int) -> Any:
    """A pointer to the float of `base` at the place of a key."""
    key = b.inttoptr(b.add(keys, ir.Constant(I64, 8 * lane)), I32.as_pointer())
    place = b.and_(b.load(key, align=4), ir.Constant(I32, (1 << PLACE_BITS) - 1))
    return b.inttoptr(b.add(base, b.shl(b.zext(place, I64), ir.Constant(I64, 2))), F32.as_pointer())


@Instruction
def route(b: Builder, keys: Address, weight: Address, routed: Address) -> None:
    """Send the weight of a rank to the places that hold this rank: `routed[place of key] = weight`."""
    for lane in range(LANES):
        own = b.inttoptr(b.add(weight, ir.Constant(I64, 4 * lane)), F32.as_pointer())
        b.store(b.load(own, align=4), _at_place(b, routed, keys, lane), align=4)


@Instruction
def route_pair(
    b: Builder, first: Address, second: Address, bias: Address, high: Address, low: Address, routed: Address
) -> None:
    """`route` of a set of two elements without keys: the larger gets the weight `high`, the other `low`."""
    bias = load(b, bias)  # two different features may tie once it is added
    x, y = b.fadd(load(b, first), bias), b.fadd(load(b, second), bias)
    swapped = b.fcmp_ordered(">", y, x)  # where one is a NaN, so is all that follows
    high, low = load(b, high), load(b, low)
    store(b, b.select(swapped, low, high), routed)
    store(b, b.select(swapped, high, low), b.add(routed, ir.Constant(I64, 4 * LANES)))


@Instruction
def fetch_add(b: Builder, keys: Address, staged: Address, out: Address) -> None:
    """Add to a rank what the places that hold it have: `out += staged[place of key]`."""
    total = load(b, out)
    for lane in range(LANES):
        value, index = b.load(_at_place(b, staged, keys, lane), align=4), ir.Constant(I32, lane)
        total = b.insert_element(total, b.fadd(b.extract_element(total, index), value), index)
    store(b, total, out)

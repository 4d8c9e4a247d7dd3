"""Sorting sixteen channels in step: keys, the networks that order them, and the way back to the elements.

A key is a float64, since processors find the smaller of two floats faster than of two integers. All keys have the
same exponent; the mantissa holds the feature's bits made monotone (32 bits), then its place (20 bits).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function

from .lanes import F32, F64, I32, I64, LANES, constant, emits, intrinsic, load, splat, store, vector
from .network import bitonic_merge, odd_even_merge

PLACE_BITS = 20
KEYS = 8 * LANES  # bytes of a row of keys


@intrinsic
def encode(typing: Any, keys: Any, features: Any, bias: Any, place: Any) -> Any:
    """Write keys whose ascending order is the descending order of `features + bias`, ties by place.

    A key is a float64, since processors find the smaller of two floats faster than of two integers. All keys have the
    same exponent; the mantissa is the float's bits made monotone (32 bits), then `place + lane` (20 bits).
    Adding 0.0 makes -0.0 tie with 0.0; a NaN sorts first, as in torch.
    """

    def emit(b: Any, keys: Any, features: Any, bias: Any, place: Any) -> None:
        x = b.fadd(b.fadd(load(b, features), load(b, bias)), constant(F32, 0.0))
        x = b.select(b.fcmp_unordered("uno", x, x), constant(F32, float("nan")), x)
        bits = b.bitcast(x, vector(I32))
        sign = b.ashr(bits, constant(I32, 31))
        descending = b.xor(bits, b.xor(b.or_(sign, constant(I32, 1 << 31)), constant(I32, -1)))
        high = b.shl(b.zext(descending, vector(I64)), constant(I64, PLACE_BITS))
        store(b, b.or_(high, _places(b, place)), keys)

    return types.void(types.int64, types.int64, types.int64, types.int64), emits(emit)


@intrinsic
def encode_last(typing: Any, keys: Any, place: Any) -> Any:
    """Write keys that come after every feature, for an element that is masked out."""

    def emit(b: Any, keys: Any, place: Any) -> None:
        store(b, b.or_(constant(I64, 0xFFFFFFFF << PLACE_BITS), _places(b, place)), keys)

    return types.void(types.int64, types.int64), emits(emit)


def _places(b: Any, place: Any) -> Any:
    """The low bits of the keys, below the exponent that they all have."""
    exponent = (1023 + 52) << 52
    return b.add(splat(b, place), ir.Constant(vector(I64), [exponent + lane for lane in range(LANES)]))


def _at(b: Any, base: Any, offset: int) -> Any:
    return b.inttoptr(b.add(base, ir.Constant(I64, offset)), I32.as_pointer())


@intrinsic
def route(typing: Any, keys: Any, weight: Any, routed: Any) -> Any:
    """Send the weight of a rank to the places that hold this rank: `routed[place of key] = weight`."""

    def emit(b: Any, keys: Any, weight: Any, routed: Any) -> None:
        for lane in range(LANES):
            place = b.load(_at(b, keys, 8 * lane), align=4)
            value = b.load(_at(b, weight, 4 * lane), align=4)
            place = b.and_(place, ir.Constant(I32, (1 << PLACE_BITS) - 1))
            offset = b.shl(b.zext(place, I64), ir.Constant(I64, 2))
            b.store(value, b.inttoptr(b.add(routed, offset), I32.as_pointer()), align=4)

    return types.void(types.int64, types.int64, types.int64), emits(emit)


@intrinsic
def route_pair(typing: Any, first: Any, second: Any, bias: Any, high: Any, low: Any, routed: Any) -> Any:
    """`route` of a set of two elements without keys: the larger gets the weight `high`, the other `low`."""

    def emit(b: Any, first: Any, second: Any, bias: Any, high: Any, low: Any, routed: Any) -> None:
        bias = load(b, bias)  # two different features may tie once it is added
        x, y = b.fadd(load(b, first), bias), b.fadd(load(b, second), bias)
        swapped = b.fcmp_ordered(">", y, x)  # where one is a NaN, so is all that follows
        high, low = load(b, high), load(b, low)
        store(b, b.select(swapped, low, high), routed)
        store(b, b.select(swapped, high, low), b.add(routed, ir.Constant(I64, 4 * LANES)))

    return types.void(*[types.int64] * 6), emits(emit)


@intrinsic
def fetch_add(typing: Any, keys: Any, staged: Any, out: Any) -> Any:
    """Add to a rank what the places that hold it have: `out += staged[place of key]`."""

    def emit(b: Any, keys: Any, staged: Any, out: Any) -> None:
        total = load(b, out)
        for lane in range(LANES):
            place = b.and_(b.load(_at(b, keys, 8 * lane), align=4), ir.Constant(I32, (1 << PLACE_BITS) - 1))
            address = b.add(staged, b.shl(b.zext(place, I64), ir.Constant(I64, 2)))
            value = b.load(b.inttoptr(address, F32.as_pointer()), align=4)
            index = ir.Constant(I32, lane)
            total = b.insert_element(total, b.fadd(b.extract_element(total, index), value), index)
        store(b, total, out)

    return types.void(types.int64, types.int64, types.int64), emits(emit)


def _choose(b: Any, name: str, x: Any, y: Any) -> Any:
    """The smaller ("min") or larger ("max") of two vectors.

    A comparison and a choice would become a masked store, from which the next load has to wait.
    """
    signature = ir.FunctionType(x.type, [x.type, x.type])
    function = get_or_insert_function(b.module, signature, f"llvm.{name}num.v{x.type.count}f64")
    return b.call(function, [x, y], fastmath=("nnan", "nsz"))


def _network(b: Any, addresses: list[Any], pairs: tuple[tuple[int, int], ...]) -> None:
    """Load half a row of keys from each address, order them by the pairs in registers, store them."""
    half = ir.VectorType(F64, LANES // 2)
    pointers = [b.inttoptr(address, half.as_pointer()) for address in addresses]
    rows = [b.load(pointer, align=8) for pointer in pointers]
    for i, j in pairs:
        rows[i], rows[j] = _choose(b, "min", rows[i], rows[j]), _choose(b, "max", rows[i], rows[j])
    for row, pointer in zip(rows, pointers, strict=True):
        b.store(row, pointer, align=8)


def _on_consecutive_rows(count: int, pairs: tuple[tuple[int, int], ...]) -> Any:
    @intrinsic
    def order(typing: Any, keys: Any) -> Any:
        def emit(b: Any, keys: Any) -> None:
            for half in (0, KEYS // 2):
                _network(b, [b.add(keys, ir.Constant(I64, i * KEYS + half)) for i in range(count)], pairs)

        return types.void(types.int64), emits(emit)

    return order


sort_2, sort_4, sort_8, sort_16 = (_on_consecutive_rows(n, odd_even_merge(n)) for n in (2, 4, 8, 16))
merge_16 = _on_consecutive_rows(16, bitonic_merge(16))


def _on_rows_apart(pairs: tuple[tuple[int, int], ...]) -> Any:
    @intrinsic
    def order(typing: Any, first: Any, second: Any, third: Any, fourth: Any) -> Any:
        def emit(b: Any, *rows: Any) -> None:
            for half in (0, KEYS // 2):
                _network(b, [b.add(row, ir.Constant(I64, half)) for row in rows], pairs)

        return types.void(*[types.int64] * 4), emits(emit)

    return order


fold = _on_rows_apart(((0, 3), (1, 2), (0, 1), (2, 3)))
cross = _on_rows_apart(((0, 2), (1, 3), (0, 1), (2, 3)))
pair_up = _on_rows_apart(((0, 2), (1, 3)))

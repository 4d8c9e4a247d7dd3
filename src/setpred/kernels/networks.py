"""Sorting networks: comparisons that do not depend on the values, so that sixteen channels can be sorted in step."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core.cgutils import get_or_insert_function

from .vectors import F64, I64, KEYS, LANES, Address, Builder, instruction

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
        signature = ir.FunctionType(x.type, [x.type, x.type])
        function = get_or_insert_function(b.module, signature, f"llvm.{name}num.v{x.type.count}f64")
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
    @instruction
    def order(b: Builder, keys: Address) -> None:
        _order(b, [b.add(keys, ir.Constant(I64, i * KEYS)) for i in range(count)], pairs)

    return order


def _on_rows_apart(pairs: Pairs) -> Any:
    @instruction
    def order(b: Builder, first: Address, second: Address, third: Address, fourth: Address) -> None:
        _order(b, [first, second, third, fourth], pairs)

    return order


sort_2, sort_4, sort_8, sort_16 = (_on_consecutive_rows(n, odd_even_merge(n)) for n in (2, 4, 8, 16))
merge_16 = _on_consecutive_rows(16, bitonic_merge(16))
fold = _on_rows_apart(((0, 3), (1, 2), (0, 1), (2, 3)))
cross = _on_rows_apart(((0, 2), (1, 3), (0, 1), (2, 3)))
pair_up = _on_rows_apart(((0, 2), (1, 3)))

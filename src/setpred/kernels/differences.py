"""Sums over the differences of all pairs of elements, without ever holding the differences."""

from __future__ import annotations

import numpy as np

from .jit import compiled
from .threads import run_on_cores, shares


def sum_differences(left: np.ndarray, right: np.ndarray, huber: bool) -> np.ndarray:
    """Sums over dim of Huber's function, or of the square, of all differences: `[batch, n, m]`.

    Args:
        left: `[batch, n, dim]`, float32 or float64.
        right: `[batch, m, dim]`, of the same type.

    Example:
        >>> sum_differences(np.array([[[0.0, 0.0]]]), np.array([[[3.0, 4.0], [1.0, 0.0]]]), huber=False)
        array([[[25.,  1.]]])
    """
    sums = np.empty((*left.shape[:2], right.shape[1]), dtype=left.dtype)

    def work(part: slice) -> None:
        difference_rows(left[part], right[part], huber, sums[part])

    run_on_cores(work, shares(len(sums), sums.size))
    return sums


@compiled
def difference_rows(left, right, huber, sums):
    """The loop over `right` is innermost and contiguous, so that the compiler can use vector instructions."""
    batch, n, dim = left.shape
    m = right.shape[1]
    one, half = left.dtype.type(1), left.dtype.type(0.5)
    turned = np.empty((dim, m), left.dtype)
    # Plain loops: whole-array statements would take seconds more to compile.
    for b in range(batch):
        for k in range(dim):
            for j in range(m):
                turned[k, j] = right[b, j, k]
        for i in range(n):
            for j in range(m):
                sums[b, i, j] = 0
            for k in range(dim):
                value = left[b, i, k]
                if huber:
                    for j in range(m):
                        x = abs(value - turned[k, j])
                        bent = min(x, one)
                        sums[b, i, j] += bent * (x - half * bent)
                else:
                    for j in range(m):
                        x = value - turned[k, j]
                        sums[b, i, j] += x * x

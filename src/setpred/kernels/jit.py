"""Python functions as machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Any:
    """`function` as machine code that runs without the interpreter's lock, kept on disk where possible.

    Sums may be taken in any order, several terms at a time.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
    try:
        return numba.njit(function, cache=True, **options)
    except RuntimeError:  # no folder to write to: compile again in every process
        return numba.njit(function, **options)

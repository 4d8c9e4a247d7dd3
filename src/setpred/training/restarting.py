"""Restarts as a part of a recipe, at no more work than without them."""

from typing import Any

from .settings import SolverSettings

SHARE = 0.24


def restarts(solver: SolverSettings) -> dict[str, Any]:
    """With restarts for a quarter, four fifths of the iterations are as much work as all of them for each.

    >>> restarts(SolverSettings(steps=20))
    {'solver.eval_steps': 16, 'restart.share': 0.24}
    """
    return {"solver.eval_steps": max(1, solver.steps * 4 // 5), "restart.share": SHARE}

"""Multiset-continuity: how far outputs move, as multisets, while inputs approach each other."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from torch import Tensor

from .probing import (
    SetFunction,
    answer,
    given_sets,
    hard_sets,
    nearby,
    rounding,
    working_dtype,
)

STEPS = 9


@dataclass(frozen=True, eq=False, repr=False)
class ContinuityReport:
    """Distances between multisets (matched, Euclidean, summed) as Y approaches X along straight lines."""

    continuous: bool
    """False when on some line the output distance stops shrinking while Y still approaches X."""
    inputs: np.ndarray
    """`[lines, steps]`, distance of X and Y, falling along a row."""
    outputs: np.ndarray
    """`[lines, steps]`, distance of f(X) and f(Y)."""
    jump: float
    """The largest output distance at the last step."""
    X: Tensor
    """`[n, dim]`, the input X of the line with that distance."""
    Y: Tensor
    """`[n, dim]`, the last Y of that line."""

    def __repr__(self) -> str:
        verdict = "multiset-continuous" if self.continuous else "multiset-discontinuous"
        return (
            f"{verdict}: over {len(self.inputs)} lines, outputs are up to {self.jump:.2g} apart "
            f"where inputs are {self.inputs[:, -1].max():.2g} apart or less"
        )


def continuity(
    fn: SetFunction, inputs: Tensor | None = None, *, size: int = 5, dim: int = 1, seed: int = 0
) -> ContinuityReport:
    """Check multiset-continuity: approach each input along a random line and measure the outputs.

    Equal elements are approached from different sides. A line counts as continuous if over the second half of its steps
    the output distance falls at least like the fourth root of the input distance, or is no larger than rounding errors.

    Args:
        fn: `[batch, n, dim] -> [batch, n, out]`.
        inputs: the points X to approach, `[batch, n, dim]` or `[n, dim]`; by default `hard_sets(size, dim)`.
        size: elements in a generated set.
        dim: entries of a generated element.
        seed: seed of inputs and directions.

    >>> from setpred.equivariance import sort_jacobian
    >>> continuity(sort_jacobian).continuous
    True
    >>> continuity(torch.sign)
    multiset-discontinuous: over 28 lines, outputs are up to 5 apart where inputs are 1e-07 apart or less
    """
    generator = torch.Generator().manual_seed(seed)
    if inputs is None:
        sets = hard_sets(size, dim, seed=seed)
        sets = hard_sets(size, dim, seed=seed, dtype=working_dtype(fn, sets))
    else:
        sets = given_sets(inputs)
    steps = np.geomspace(0.1, nearby(sets.dtype), STEPS)
    directions = torch.randn(sets.shape, generator=generator, dtype=sets.dtype).to(sets.device)
    approaching = [sets + float(step) * directions for step in steps]

    out = answer(fn, sets)
    input_distance = np.stack([multiset_distance(sets, Y) for Y in approaching], axis=1)
    output_distance = np.stack([multiset_distance(out, answer(fn, Y)) for Y in approaching], axis=1)

    middle, last = output_distance[:, STEPS // 2], output_distance[:, -1]
    shrinks = last <= middle * (steps[-1] / steps[STEPS // 2]) ** 0.25
    # A sum over n elements of Euclidean norms, each of which may be off by the rounding of its entries.
    negligible = last <= rounding(sets, out) * out.shape[1] * out.shape[2] ** 0.5
    stuck = ~(shrinks | negligible)
    worst = int(np.argmax(np.where(stuck, last, -1.0))) if stuck.any() else int(np.argmax(last))
    return ContinuityReport(
        continuous=not stuck.any(),
        inputs=input_distance,
        outputs=output_distance,
        jump=float(last[worst]),
        X=sets[worst],
        Y=approaching[-1][worst],
    )


def multiset_distance(first: Tensor, second: Tensor) -> np.ndarray:
    """The Hungarian metric: the least sum of Euclidean distances over one-to-one matches.

    Args:
        first: `[batch, n, dim]`.
        second: `[batch, n, dim]`.

    Returns:
        `[batch]`.

    >>> multiset_distance(torch.tensor([[[0.0], [1.0]]]), torch.tensor([[[1.0], [0.5]]]))
    array([0.5])
    """
    costs = [cdist(a, b) for a, b in zip(_array(first), _array(second), strict=True)]
    return np.array([cost[linear_sum_assignment(cost)].sum() for cost in costs])


def _array(sets: Tensor) -> np.ndarray:
    return sets.detach().double().cpu().numpy()

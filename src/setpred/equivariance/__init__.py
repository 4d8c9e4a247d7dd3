"""Decide which equivariances a function on multisets has, with a witness where it lacks one.

Functions are batched, `[batch, n, dim] -> [batch, n, out]`:

>>> from setpred import equivariance
>>> report = equivariance.check(equivariance.push_apart, size=2)
>>> report.set_equivariant, report.multiset_equivariant, report.exclusive
(False, True, True)
>>> equivariance.continuity(equivariance.push_apart, size=2).continuous
True
"""

from .nearness import ContinuityReport, continuity
from .permutations import Report, Witness, check
from .probing import hard_sets
from .sort_gradient import push_apart, sort_jacobian

__all__ = [
    "ContinuityReport",
    "Report",
    "Witness",
    "check",
    "continuity",
    "hard_sets",
    "push_apart",
    "sort_jacobian",
]

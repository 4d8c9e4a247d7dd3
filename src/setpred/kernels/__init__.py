"""Compiled kernels for the CPU beside plain torch for every device: the same operation, the same results."""

from .simplex import project_simplex
from .sort_pool import sort_pool_residual

__all__ = ["project_simplex", "sort_pool_residual"]

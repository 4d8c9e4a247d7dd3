"""Compiled kernels for the CPU beside plain torch for every device: the same operation, the same results."""

from .routing import collect, route
from .simplex import project_simplex, project_simplex_
from .sort_pool import sort_pool_residual
from .steps import momentum_steps

__all__ = ["collect", "momentum_steps", "project_simplex", "project_simplex_", "route", "sort_pool_residual"]

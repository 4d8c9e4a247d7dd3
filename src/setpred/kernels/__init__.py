"""Compiled kernels for the CPU beside plain torch for every device: the same operation, the same results."""

from .simplex import project_simplex
from .sorting import collect, route

__all__ = ["collect", "project_simplex", "route"]

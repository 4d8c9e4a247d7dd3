"""Models against each other on the same data with the same processor time."""

from .contest import run_contest

__all__ = ["run_contest"]

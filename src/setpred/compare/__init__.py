"""Models against each other on the same data with the same processor time."""

from .contest import make_contests, train_all
from .leaderboard import write_leaderboards

__all__ = ["make_contests", "train_all", "write_leaderboards"]

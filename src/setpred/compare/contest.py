"""Train all models of some tasks for the same processor time, and say which is best at what."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..paper.executors import Processes, RayCluster
from ..paper.scheduler import run_all
from .entrants import make_contest, read_budget
from .leaderboard import Leaderboard, read_leaderboard
from .leaderboard_page import write_page


def run_contest(
    tasks: Sequence[str],
    models: Sequence[str] = (),
    budget: str = "10m",
    seeds: int = 3,
    preset: str = "small",
    out: Path = Path("runs/compare"),
    workers: int | None = None,
    ray: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> list[Leaderboard]:
    """Train what is not finished; write a table for each task and a page about all of them into `out`.

    Args:
        tasks: names of tasks, of data that `setpred data` makes, or folders of one's own.
        models: those that compete; all rivals of a task unless given.
        budget: processor time of each run, such as 90s or 10m.
        seeds: runs of each model.
        preset: the size of the models and their data.
        out: where runs, tables and the page are kept. What is finished there is not trained again.
        workers: how many runs at a time; 0 only compares what is finished.
        ray: the address of a Ray cluster to train on, instead of this machine.
        changes: further settings, of all runs.
    """
    seconds = read_budget(budget)
    contests = [make_contest(t, models, seconds, seeds, preset, out, dict(changes or {})) for t in tasks]
    names = [contest.name for contest in contests]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two tasks are called {twice}: rename a folder, so that their runs have different places")
    ordered = [
        contest.runs[i]
        for i in range(max(len(c.runs) for c in contests))
        for contest in contests[:]
        if i < len(contest.runs)
    ]
    if workers != 0:
        run_all(ordered, Processes(workers) if ray is None else RayCluster(ray, workers))
    boards = [read_leaderboard(contest) for contest in contests]
    if not any(row.finished for board in boards for row in board.rows):
        reasons = [row.failure for board in boards for row in board.rows if row.failure]
        raise UsageError(f"no run has finished: {reasons[0] if reasons else 'train them, without --workers 0'}")
    for board in boards:
        board.write(out)
    write_page(boards, out / "compare.html")
    return boards

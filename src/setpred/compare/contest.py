"""Who takes part in a contest, and its trainings: the same processor time for every model and seed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ..data.sources import SOURCES, make_source
from ..errors import UsageError, unknown
from ..paper.executors import Processes, RayCluster
from ..paper.scheduler import run_all
from ..paper.trainings import Run
from ..tasks import find_task, make_settings
from ..tasks.settings import Settings, flatten, to_dict
from ..tasks.task import as_named, usual_model
from ..values import short

BUDGET = re.compile(r"(?P<number>\d+(\.\d*)?)(?P<unit>s|m|h)?")
UNITS = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
BEST = "best"
"""The name of what is recommended for a task: its usual model, with our recipe."""
SHORTEST, LONGEST = 1.0, 365 * 24 * 3600.0


@dataclass(frozen=True)
class Entrant:
    """A model in a contest: a run for each seed, and the settings of the first."""

    name: str
    runs: tuple[Run, ...]
    settings: Settings


@dataclass(frozen=True)
class Contest:
    """The models that compete in one task with one budget."""

    name: str
    task: str
    folder: Path
    entrants: tuple[Entrant, ...]
    budget: float

    @property
    def runs(self) -> list[Run]:
        """The first seed of all models before the second of any."""
        return [entrant.runs[i] for i in range(len(self.entrants[0].runs)) for entrant in self.entrants]


def read_budget(text: str) -> float:
    """Processor seconds.

    >>> read_budget("90"), read_budget("10m"), read_budget("1.5h")
    (90.0, 600.0, 5400.0)
    """
    found = BUDGET.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--budget {text!r} is no time: write 90s, 10m or 1h of processor time for each run")
    budget = float(found["number"]) * UNITS[found["unit"]]
    if budget < SHORTEST:
        raise UsageError(f"--budget {text}: no model learns in less than {SHORTEST:g} s: give more")
    if budget > LONGEST:
        raise UsageError(f"--budget {short(text)} is longer than a year: give less")
    return budget


def make_contests(
    tasks: Sequence[str],
    models: Sequence[str] = (),
    budget: str = "10m",
    seeds: int = 3,
    preset: str = "small",
    out: Path = Path("runs/compare"),
    changes: Mapping[str, Any] | None = None,
) -> list[Contest]:
    """One contest for each task.

    Args:
        tasks: names of tasks, of data that `setpred data` makes, or folders of one's own.
        models: those that compete; all rivals of a task unless given.
        budget: processor time of each run, such as 90s or 10m.
        seeds: runs of each model.
        preset: the size of the models and their data.
        out: where runs are kept.
        changes: further settings, of all runs.
    """
    seconds = read_budget(budget)
    contests = [make_contest(t, models, seconds, seeds, preset, out, dict(changes or {})) for t in tasks]
    names = [contest.name for contest in contests]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two tasks are called {twice}: rename a folder, so that their runs have different places")
    return contests


def train_all(contests: Sequence[Contest], workers: int | None = None, ray: str | None = None) -> None:
    """Train what is not finished: `workers` runs at a time, here or on the Ray cluster at the address `ray`.

    The first runs of all contests come before the second of any.
    """
    turns = zip_longest(*(contest.runs for contest in contests))
    runs = [run for turn in turns for run in turn if run is not None]
    run_all(runs, Processes(workers) if ray is None else RayCluster(ray, workers))


def make_contest(
    task: str, models: Sequence[str], budget: float, seeds: int, preset: str, out: Path, changes: dict[str, Any]
) -> Contest:
    """The contest of a task, of a folder of one's own, or of data that a source makes first."""
    if task in SOURCES and not Path(task).is_dir():
        made = out / "data" / task
        if not made.exists():
            make_source(task, made)
        task = str(made)
    given = as_named(task)
    kind = find_task(given["task"])
    if preset not in kind.sizes.values():
        raise unknown("preset", preset, dict.fromkeys(kind.sizes.values()))
    name = Path(given["data.folder"]).name if "data.folder" in given else task
    folder = out / f"{name}-{preset}-{budget:g}s"
    changes = {**changes, "optim.budget": budget, "trainer.logger": None}
    usual = make_settings(task, None, preset, 0, changes)
    entrants: list[Entrant] = []
    for model in dict.fromkeys(models) or (*kind.rivals(usual), BEST):
        best = model == BEST
        if best and kind.best is None:
            continue
        size = next(each for each, own in kind.sizes.items() if own == preset and each != own) if best else preset
        trained = usual_model(task, size) if best else model
        settings = make_settings(task, trained, size, 0, changes)
        if best and any(_same(settings, entrant.settings) for entrant in entrants):
            continue  # the recommended one takes part already
        runs = tuple(
            Run(folder / f"{model}-seed{seed}", task, trained, size, seed, changes, settings.optim.steps)
            for seed in range(seeds)
        )
        entrants.append(Entrant(model, runs, settings))
    return Contest(name, task, folder, tuple(entrants), budget)


def _same(one: Settings, other: Settings) -> bool:
    """Whether two settings differ in the name of their preset at most."""
    first, second = (flatten(to_dict(settings)) | {"preset": ""} for settings in (one, other))
    return first == second

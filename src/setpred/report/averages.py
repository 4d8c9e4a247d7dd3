"""Runs of one setting averaged over their seeds, beside what was published for it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev

from ..paper.published import TABLES, find_table
from ..training.settings import flatten, to_dict
from ..training.tasks import make_settings
from .runs import Run, grouped

METRICS = {"autoencoding": "loss", "numbering": "accuracy", "clevr": "ap_0.5", "folder": "score"}


@dataclass
class Published:
    """A published cell, in the units of our metrics."""

    mean: float
    std: float


@dataclass
class Average:
    """A setting: one of its runs, the metric of each seed that ended in a number, and the published cell if any."""

    run: Run
    values: list[float]
    published: Published | None

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def std(self) -> float:
        return stdev(self.values) if len(self.values) > 1 else 0.0


def averages(runs: Iterable[Run]) -> list[Average]:
    """One for each setting with a finished run of a task that was published."""
    found = []
    for group in grouped((run for run in runs if run.finished), lambda run: run.setting):
        values = [run.metric(METRICS[run.task]) for run in group]
        values = [value for value in values if math.isfinite(value)]
        if values:
            found.append(Average(group[0], values, published(group[0])))
    return found


def published(run: Run) -> Published | None:
    """What the paper says about exactly this setting."""
    if run.task not in TABLES or run.settings.preset != "paper":
        return None
    table = find_table(run.task)
    examples = make_settings(run.task, preset="paper").data.train
    for cell in table.cells:
        ours = table.models.get(cell.model)
        if ours is None or ours.model != run.model or cell.mean is None or not cell.certain:
            continue
        if cell.metric != METRICS[run.task]:
            continue
        changes = {**ours.changes, **table.changes(cell, ours, examples)}
        if any(run[key] != value for key, value in changes.items()):
            continue
        settings = make_settings(run.task, ours.model, "paper", run.settings.seed, changes)
        apart = ("trainer.", "data.")
        same = all(run[key] == value for key, value in flatten(to_dict(settings)).items() if not key.startswith(apart))
        if same and table.same_data(run.settings.data, settings.data):
            return Published(cell.mean / table.scale, (cell.std or 0.0) / table.scale)
    return None

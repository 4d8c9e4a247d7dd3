"""Ours beside the published: which published number belongs to a run, and a verdict for each cell."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from ..errors import UsageError
from ..tasks import find_task, make_settings
from ..tasks.settings import Settings, flatten, to_dict
from .published import TABLES, Cell, Table, find_table
from .trainings import Outcome, Run, read_outcome

BETTER, WITHIN, WORSE = "better", "within 2σ", "worse"


@dataclass(frozen=True)
class Plan:
    """A part of a table: its cells, and for each of them a run a seed.

    Attributes:
        command: the words that ask for this plan.
        departures: what differs from the published protocol; empty where nothing does.
        comparable: whether the data are the paper's, so that a verdict makes sense.
    """

    table: Table
    cells: Sequence[tuple[Cell, tuple[Run, ...]]]
    folder: Path
    command: str
    departures: tuple[str, ...]
    comparable: bool

    @property
    def runs(self) -> list[Run]:
        """Every run once, the first seed of all cells before the second of any."""
        width = max(len(runs) for _, runs in self.cells)
        ordered = [runs[i] for i in range(width) for _, runs in self.cells]
        return list({run.folder: run for run in ordered}.values())


@dataclass(frozen=True)
class Row:
    """A cell, our runs of it, and how they compare; `verdict` is empty where nothing can be said.

    `beside` is our mean by the cell's other rule, where it has one.
    """

    cell: Cell
    ours: str
    outcomes: tuple[Outcome, ...]
    values: tuple[float, ...]
    verdict: str
    beside: float | None = None

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def count(self, status: str) -> int:
        return sum(outcome.status == status for outcome in self.outcomes)


@dataclass(frozen=True)
class Comparison:
    """The rows of a plan as its run folders stand, and what a person should know of them."""

    plan: Plan
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()

    @property
    def outcomes(self) -> list[Outcome]:
        """Of every run once."""
        return list({o.run.folder: o for row in self.rows for o in row.outcomes}.values())

    def begun(self) -> "Comparison":
        """The rows of which a run is finished or has diverged."""
        return replace(self, rows=tuple(row for row in self.rows if any(o.final for o in row.outcomes)))

    @property
    def commits(self) -> list[str]:
        return self._named("commit")

    @property
    def hardware(self) -> list[str]:
        return self._named("hardware")

    @property
    def seconds(self) -> float:
        """Of training, all runs together."""
        return sum(o.result.get("seconds", 0.0) for o in self.outcomes)

    def _named(self, key: str) -> list[str]:
        return sorted({str(o.result.get(key) or "unknown") for o in self.outcomes if o.result})


def compare(
    plan: Plan,
    remarks: Mapping[Path, str] = MappingProxyType({}),
    outcome_of: Callable[[Run], Outcome] = read_outcome,
) -> Comparison:
    """What became of every run of the plan, read from its folder; `remarks` are of some of them."""
    table, rows = plan.table, []
    for cell, runs in plan.cells:
        outcomes = tuple(outcome_of(run) for run in runs)
        values = tuple(table.scale * _metric(o, cell.metric) for o in outcomes if o.status == "finished")
        judged = verdict(table, cell, statistics.fmean(values)) if values and plan.comparable else ""
        others = [o.result["metrics"].get(cell.beside) for o in outcomes if o.status == "finished"]
        beside = table.scale * statistics.fmean(others) if others and None not in others else None
        rows.append(Row(cell, table.models[cell.model].name, outcomes, values, judged, beside))
    sentences = (f"{run.name} {remarks[run.folder]}" for run in plan.runs if run.folder in remarks)
    return Comparison(plan, tuple(rows), tuple(sentences))


def verdict(table: Table, cell: Cell, mean: float) -> str:
    """Our mean against the published mean ± 2 standard deviations; empty where the paper leaves a doubt.

    >>> from .published import autoencoding
    >>> cell = Cell("idspn", {}, "loss", mean=5.0, std=1.0)
    >>> [verdict(autoencoding(), cell, mean) for mean in (2.9, 3.0, 7.0, 7.1)]
    ['better', 'within 2σ', 'within 2σ', 'worse']
    """
    if cell.mean is None or cell.std is None or not cell.certain:
        return ""
    if abs(mean - cell.mean) <= 2 * cell.std:
        return WITHIN
    return BETTER if (mean < cell.mean) == table.lower_is_better else WORSE


@dataclass
class Published:
    """A published cell, in the units of our metrics, and which of these it is."""

    mean: float
    std: float
    metric: str = ""


def published_value(settings: Settings, any_rule: bool = False) -> Published | None:
    """What the paper says about exactly these settings, if it does.

    Args:
        settings: of a run.
        any_rule: take an average precision by the rule of its publication too, which the task may not be judged by.
    """
    if settings.task not in TABLES or settings.preset != "paper":
        return None
    table, requested = find_table(settings.task), flatten(to_dict(settings))
    examples = make_settings(settings.task, preset="paper").data.train
    for cell in table.cells:
        ours = table.models.get(cell.model)
        if ours is None or ours.model != settings.model or cell.mean is None or not cell.certain:
            continue
        if (cell.metric.removeprefix("image_") if any_rule else cell.metric) != find_task(settings.task).metric:
            continue
        changes = {**ours.changes, **table.changes(cell, ours, examples)}
        if any(requested.get(key) != value for key, value in changes.items()):
            continue
        exact = make_settings(settings.task, ours.model, "paper", settings.seed, changes)
        apart = ("trainer.", "data.")
        same = all(
            requested.get(key) == value for key, value in flatten(to_dict(exact)).items() if not key.startswith(apart)
        )
        if same and table.same_data(settings.data, exact.data):
            return Published(cell.mean / table.scale, (cell.std or 0.0) / table.scale, cell.metric)
    return None


def published_nearby(settings: Settings) -> tuple[Published, str] | None:
    """What the paper says about a model at the size of its tables that is nearest to a run, and what that size is.

    >>> found, size = published_nearby(make_settings("numbering", "idspn", "small"))
    >>> found.mean, size
    (0.968, '64 elements of 4 classes, 640 training examples')
    """
    if settings.task not in TABLES:
        return None
    table, requested = find_table(settings.task), flatten(to_dict(settings))
    ours = next((ours for ours in table.models.values() if ours.model == settings.model and not ours.changes), None)
    if ours is None:
        return None
    real = {"data.source": "CLEVR"} if "data.source" in requested else {}
    same_axes = {key: requested[key] for key in table.changes(table.cells[0], ours, 1)}
    for overrides in (same_axes, {}):
        full = make_settings(settings.task, settings.model, "paper", 0, {**overrides, **real})
        if (found := published_value(full, any_rule=True)) is not None:
            return found, "CLEVR's own images" if real else find_task(settings.task).problem(full)
    return None


def _metric(outcome: Outcome, name: str) -> float:
    try:
        return float(outcome.result["metrics"][name])
    except (KeyError, TypeError, ValueError):
        path = outcome.run.folder / "result.json"
        raise UsageError(f"{path} holds no {name}: move the folder away to train the run again") from None

"""Run folders as a report sees them: what was requested, results, names, and predictions."""

import csv
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import UsageError
from ..inits import GuessedInit
from ..tasks import MODEL_NAMES, Task, find_task, make_settings
from ..tasks.experiment import Batch, Experiment
from ..tasks.settings import Settings, flatten, part_of, to_dict
from ..training.run_folder import HARMLESS, decided_by_budget, load_run, read_config, read_result
from ..views.view import Examples

# What tells one run from another, in the order and the letters of the paper; the rest is named by its key.
SHORT = {
    "data.n": "n",
    "data.d": "d",
    "solver.steps": "T",
    "data.classes": "classes",
    "data.train": "samples",
    "preset": "preset",
}
ALWAYS = ("data.n", "data.d", "solver.steps", "data.classes")


@dataclass
class Run:
    """A run folder; `result` is empty while it is unfinished."""

    path: Path
    settings: Settings
    curve: dict[str, list[float]]
    result: dict[str, Any]
    requested: dict[str, Any] = field(repr=False)

    @property
    def finished(self) -> bool:
        return bool(self.result)

    @property
    def seconds(self) -> float:
        """How long it took, or has taken so far."""
        return self.result.get("seconds") or (self.curve.get("seconds") or [0.0])[-1]

    @property
    def task(self) -> str:
        return self.settings.task

    @property
    def model(self) -> str:
        return self.settings.model

    @property
    def name(self) -> str:
        known = MODEL_NAMES.get(self.model)
        return (known.name if known else self.model) + (" + augmentation" if self["data.augment"] else "")

    @property
    def iterates(self) -> bool:
        return self.kind.iterates(self.model)

    @property
    def guesses(self) -> bool:
        """Whether its training loss holds the loss of guessed initial sets as well."""
        return self.iterates and self["init"] == GuessedInit.__name__

    @property
    def kind(self) -> Task:
        """The task, as it is described."""
        return find_task(self.task)

    @property
    def score(self) -> float:
        """The metric that models of its task are compared by; NaN where it is missing."""
        return self.metric(self.kind.metric)

    @property
    def problem_name(self) -> str:
        """The task and its data in words."""
        return f"{self.task.capitalize()}, {self.kind.problem(self.settings)}"

    @property
    def problem(self) -> tuple[Hashable, ...]:
        """What the data are: runs with the same problem can be compared."""
        apart = ("data.augment", "data.test", "data.val")
        data = {key: value for key, value in self.requested.items() if key.startswith("data.") and key not in apart}
        return (self.task, *data.items())

    @property
    def setting(self) -> tuple[Hashable, ...]:
        """Everything but the seed and what does not change the numbers: runs with the same setting are averaged."""
        apart = ("seed", "trainer.round", *HARMLESS, *decided_by_budget(self.settings))
        return tuple((key, value) for key, value in self.requested.items() if key not in apart)

    @cached_property
    def changes(self) -> dict[str, Any]:
        """What was asked for beyond the preset and the model."""
        s = self.settings
        # What is picked for a folder of one's own follows from what is in it.
        follows = self.kind.describe is not None
        data = {key: value for key, value in self.requested.items() if follows and key.startswith("data.")}
        usual = flatten(to_dict(make_settings(s.task, s.model, s.preset, s.seed, data)))
        hidden = ("data.augment", *decided_by_budget(s))
        return {
            key: value
            for key, value in self.requested.items()
            if usual.get(key) != value and not key.startswith("trainer.") and key not in hidden
        }

    def __getitem__(self, key: str) -> Any:
        """A setting by its dotted key, or None where the task has none of that name."""
        return self.requested.get(key)

    def metric(self, name: str) -> float:
        """A metric of the test split; NaN where it is missing."""
        value = self.result.get("metrics", {}).get(name)
        return math.nan if value is None else float(value)


def runs_below(path: Path) -> list[Path]:
    """The run folder at a path, or the runs in a folder that is none itself, such as those of a demo."""
    if (path / "config.yaml").exists():
        return [path]
    return sorted(config.parent for config in path.rglob("config.yaml")) or [path]


def read_run(path: Path) -> Run:
    """A run folder, finished or not; a folder that is not a run, or is damaged, is a `UsageError`."""
    settings = read_config(path)
    result = read_result(path) if (path / "result.json").exists() else {}
    return Run(path, settings, read_curve(path / "metrics.csv"), result, _hashable(flatten(to_dict(settings))))


def _hashable(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that runs can be grouped by: a list, such as the betas of Adam, as its text."""
    return {key: str(value) if isinstance(value, list | dict) else value for key, value in settings.items()}


def read_curve(path: Path) -> dict[str, list[float]]:
    """The columns of `metrics.csv` as numbers, NaN where a cell is empty."""
    if not path.exists():
        return {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return {name: [float(row[name] or "nan") for row in rows] for name in (rows[0] if rows else {})}
    except (ValueError, TypeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is damaged: {str(error)[:100]}") from None


def describe(run: Run, among: Iterable[Run], without: tuple[str, ...] = (), always: bool = False) -> str:
    """In a few words the settings, except those in `without`, in which runs differ.

    A change that all of them share is said once elsewhere, and a label stays short. With `always`, n, d, T and the
    classes are named in any case.
    """
    others = list(among)
    keys = dict.fromkeys([*SHORT, *(key for other in others for key in other.changes)])
    differ = {key for key in keys if len({other[key] for other in others if _has(other, key)}) > 1}
    named = differ | {key for key in ALWAYS if run[key] is not None} if always else differ
    words = [key for key in keys if key in named and key not in without and _has(run, key)]
    return ", ".join(f"{SHORT.get(key, key)}={_short(run[key])}" for key in words)


def shared_changes(runs: Sequence[Run]) -> str:
    """What all runs were asked for beyond their presets, except what stands in every description."""
    first, *others = [run.changes for run in runs]
    shared = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    return ", ".join(f"{key}={_short(value)}" for key, value in shared.items() if key not in ALWAYS)


def label(run: Run, among: Iterable[Run], without: tuple[str, ...] = ()) -> str:
    """The model, and what tells this run from the others but its seed.

    Beyond the problem itself, only from others of its model: that models differ in width goes without saying.
    """
    others = list(among)
    own = [other for other in others if other.model == run.model]
    common = [key for key in {key for other in others for key in other.changes} if key not in ALWAYS]
    usual = [key for key in common if len({other[key] for other in own if _has(other, key)}) < 2]
    details = describe(run, others, (*without, *usual))
    return f"{run.name} ({details})" if details else run.name


def grouped(runs: Iterable[Run], by: Callable[[Run], Hashable]) -> list[list[Run]]:
    """Runs that have `by` in common, in the order in which they first appear."""
    groups: dict[Hashable, list[Run]] = {}
    for run in runs:
        groups.setdefault(by(run), []).append(run)
    return list(groups.values())


def problem_letters(run: Run) -> str:
    """The data in the paper's letters, for the title of a panel."""
    sizes = [f"{SHORT[key]}={run[key]}" for key in ("data.n", "data.d", "data.classes") if run[key] is not None]
    return ", ".join(sizes) or (Path(run["data.folder"]).name if run["data.folder"] else run.task)


def in_order(runs: list[Run]) -> list[Run]:
    """By task, problem, model, iterations, seed: the order in which a reader compares."""
    models = list(MODEL_NAMES)

    def key(run: Run) -> tuple[Any, ...]:
        rank = models.index(run.model) if run.model in models else len(models)
        return run.task, run["data.n"] or 0, run["data.d"] or 0, rank, run["solver.steps"] or 0, run.settings.seed

    return sorted(runs, key=key)


def _has(run: Run, key: str) -> bool:
    """Whether its task and its model have such a setting, be it none."""
    return key in run.requested and (run.iterates or part_of(key) is None)


def _short(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


TRACED = 128
ITERATIONS = 100


@dataclass
class Descent:
    """The inner optimisation of some test examples, `[iterations + 1, examples]` each; infinite once diverged."""

    objective: Tensor
    error: Tensor


@dataclass
class Predictions:
    """What a run predicts for test examples of its own task; `descent` is of a model that has an inner optimisation."""

    run: Run
    examples: Examples
    descent: Descent | None


@torch.no_grad()
def predict_examples(run: Run) -> Predictions | None:
    """Predict some test examples; None where a report has no pictures of them."""
    if not run.finished:
        return None
    _, experiment = load_run(run.path, {"data.test": min(find_task(run.task).shown, run["data.test"])})
    examples = experiment.examples()
    if examples is None:
        return None
    return Predictions(run, examples, trace(experiment, tuple(t[:TRACED] for t in experiment.split("test"))))


def trace(experiment: Experiment, batch: Batch) -> Descent | None:
    """Solve for `ITERATIONS` instead of the usual number, and judge every iterate."""
    iterates = experiment.trace(batch, ITERATIONS)
    if iterates is None:
        return None
    error = torch.full_like(iterates.loss, torch.inf)
    for row, sets in zip(error, iterates.sets, strict=True):
        # A diverged iterate may be finite and still too large for its cost to be.
        fine = (sets.abs() < 1e12).flatten(1).all(dim=1)
        row[fine] = experiment.losses(sets[fine], tuple(t[fine] for t in batch))
    return Descent(iterates.loss.nan_to_num(nan=torch.inf), error)

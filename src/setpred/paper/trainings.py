"""One training of a table: its settings, its folder, about what it costs, and what became of it."""

import csv
import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ..errors import UsageError
from ..files import replacing
from ..tasks import find_task, make_settings
from ..tasks.settings import Settings, flatten, to_dict
from ..training.run_folder import HARMLESS, decided_by_budget, read_config, read_result, summary

TAKEN = "is being trained by another process"
PER_SECOND = 1e11
"""Multiplications that two cores with AVX-512 do in a second of a training step (`results/bench/bench.json`)."""
OVERHEAD = 0.02
"""Seconds of a step in which nothing is multiplied."""
BACKWARD = 3
"""A layer and its gradients, in multiples of the layer."""


@dataclass(frozen=True)
class Run:
    """One training: its folder, what is changed in the preset, its steps, and about how many seconds they take."""

    folder: Path
    task: str
    model: str
    preset: str
    seed: int
    changes: Mapping[str, Any]
    steps: int
    estimate: float = 0.0

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def length(self) -> float:
        """In steps, or in processor seconds where it has a budget."""
        return float(self.changes.get("optim.budget") or self.steps)

    def done(self, progress: "Progress") -> float:
        """How much of its length a run has behind it."""
        return progress.cpu_seconds if self.changes.get("optim.budget") else progress.step

    @property
    def order(self) -> dict[str, Any]:
        """The arguments of `make_settings`."""
        names = {"task": self.task, "model": self.model, "preset": self.preset, "seed": self.seed}
        return {**names, "overrides": dict(self.changes)}

    @cached_property
    def settings(self) -> Settings:
        return make_settings(**self.order)

    @property
    def command(self) -> str:
        """The words that make this run alone."""
        words = [f"{key}={as_word(value)}" for key, value in self.changes.items()]
        options = ["--model", self.model, "--preset", self.preset, "--seed", str(self.seed), "--out", str(self.folder)]
        return shlex.join(["setpred", "train", self.task, *words, *options])


@dataclass(frozen=True)
class Outcome:
    """A run and how far it came.

    Attributes:
        result: its `result.json`, or `failure.json` where it failed.
        reason: why it failed.
        final: whether running it again would change nothing.
    """

    run: Run
    status: Literal["finished", "failed", "unfinished"]
    result: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    final: bool = False


@dataclass(frozen=True)
class Progress:
    """The last round a run completed."""

    step: int = 0
    seconds: float = 0.0
    loss: float | None = None
    cpu_seconds: float = 0.0


def read_outcome(run: Run) -> Outcome:
    """Finished, failed or unfinished; a folder made with other settings counts as failed, and is left alone."""
    try:
        _check_settings(run)
        result = read_result(run.folder) if (run.folder / "result.json").exists() else None
    except UsageError as error:
        return Outcome(run, "failed", reason=str(error), final=True)
    if result is not None:
        loss = result["metrics"].get("loss")
        if isinstance(loss, float) and not math.isfinite(loss):
            return Outcome(run, "failed", result, f"diverged: the test loss is {loss}", final=True)
        return Outcome(run, "finished", result, final=True)
    failure = _read_failure(run.folder)
    if failure is not None:
        return Outcome(run, "failed", failure, failure["reason"], final=failure["diverged"])
    return Outcome(run, "unfinished")


def read_progress(folder: Path) -> Progress:
    """The last row of the run's `metrics.csv`."""
    try:
        with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
            *_, last = csv.DictReader(file)
        loss = last.get("train/loss")
        cpu_seconds = float(last.get("cpu_seconds") or 0)
        return Progress(int(last["step"]), float(last["seconds"]), float(loss) if loss else None, cpu_seconds)
    except (FileNotFoundError, ValueError, KeyError):
        return Progress()


def record_failure(folder: Path, settings: Settings, error: Exception) -> None:
    """A failed run is a result: `failure.json` says of it what `result.json` says of others, and the reason.

    Training draws its random numbers from the seed, so a run whose weights stopped being numbers would lose them again.
    """
    progress = read_progress(folder)
    reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    diverged = "NaN" in reason and not isinstance(error, UsageError)
    if diverged:
        reason = f"diverged after step {progress.step} ({reason})"
    failure = {**summary(settings, progress.step, progress.seconds, {}), "reason": reason, "diverged": diverged}
    with replacing(folder / "failure.json") as temporary:
        temporary.write_text(json.dumps(failure, indent=2) + "\n", encoding="utf-8")


def _check_settings(run: Run) -> None:
    if not (run.folder / "config.yaml").exists():
        return
    requested, written = flatten(to_dict(run.settings)), flatten(to_dict(read_config(run.folder)))
    free = (*HARMLESS, *decided_by_budget(run.settings))
    for key, value in requested.items():
        if key not in free and written.get(key) != value:
            raise UsageError(f"{run.folder} was made with {key}={written.get(key)}, not {value}: move it elsewhere")


def _read_failure(folder: Path) -> dict[str, Any] | None:
    try:
        failure = json.loads((folder / "failure.json").read_text(encoding="utf-8"))
        return failure if {"reason", "diverged"} <= failure.keys() else None
    except (FileNotFoundError, ValueError, AttributeError):
        return None


def as_word(value: Any) -> str:
    """A value as it is written in a command, in one way."""
    word = str(value)
    return word.lower() if word in ("None", "True", "False") else word


def step_seconds(settings: Mapping[str, Any]) -> float:
    """Of a training step, right within a factor of two or so; settings are flat, as `flatten` makes them.

    >>> step_seconds(flatten(to_dict(make_settings("autoencoding", "idspn", "paper")))) < 0.1
    True
    """
    multiplications = find_task(settings["task"]).multiplications(settings)
    return OVERHEAD + settings["optim.batch"] * BACKWARD * multiplications / PER_SECOND

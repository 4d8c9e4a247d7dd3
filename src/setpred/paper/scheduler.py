"""Many runs at once: which wait, which are trained, and what a person sees; where is an executor's business."""

import math
import time
from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from . import trainings
from .trainings import TAKEN, Outcome, Run, read_outcome, read_progress


class Executor(Protocol):
    """Where runs are trained: the processes of this machine, or a cluster."""

    def expect(self, runs: Sequence[Run]) -> None:
        """Told once which runs are to come."""

    def places(self) -> int:
        """How many runs may be trained at a time, now."""

    def start(self, run: Run) -> Any:
        """The training of a run, or None where another process already does it."""

    def ended(self, trainings: Sequence[Any]) -> list[Any]:
        """Which of them have ended; takes a moment."""

    def outcome(self, training: Any, run: Run) -> Outcome:
        """What became of a training that has ended."""

    def cancel(self, training: Any) -> None:
        """End a training; its run goes on from its last round when it is asked for again."""

    def close(self) -> None:
        """Let go of everything."""


def run_all(
    runs: Sequence[Run], executor: Executor, within: float | None = None, elsewhere: Collection[Path] = ()
) -> dict[Path, str]:
    """Train what is not finished; with `within`, for so many seconds, and the cheapest first.

    Runs whose folders are among `elsewhere` were trained somewhere else, and are not trained again.

    Returns what a person should know of runs that were neither finished nor failed, by their folders. An interrupt
    ends the trainings and goes on to the caller; runs that were under way resume at their last round when asked for
    again.
    """
    outcomes = [Outcome(r, "finished", final=True) if r.folder in elsewhere else read_outcome(r) for r in runs]
    final = {outcome.run.folder for outcome in outcomes if outcome.final}
    ordered = runs if within is None else cheapest_first(runs)
    waiting = deque(run for run in ordered if run.folder not in final)
    end = math.inf if within is None else time.monotonic() + within
    remarks: dict[Path, str] = {}
    running: dict[Any, Run] = {}
    try:
        if not waiting:
            return {}
        executor.expect(list(waiting))
        with Display(runs) as shown:
            for outcome in outcomes:
                if outcome.final:
                    shown.kept(outcome)
            while (waiting or running) and time.monotonic() < end:
                while waiting and len(running) < executor.places():
                    run = waiting.popleft()
                    training = executor.start(run)
                    if training is None:
                        remarks[run.folder] = TAKEN
                        shown.remark(f"{run.name} {TAKEN}")
                    else:
                        running[training] = run
                        shown.started(run)
                ended = executor.ended(list(running))
                for run in running.values():
                    shown.progressed(run, read_progress(run.folder))
                for training in ended:
                    run = running.pop(training)
                    outcome = executor.outcome(training, run)
                    shown.ended(outcome)
                    if outcome.status == "unfinished":
                        remarks[run.folder] = outcome.reason
            for run in running.values():
                shown.stopped(run)
    finally:
        for training in running:
            executor.cancel(training)
        executor.close()
    return remarks


def cheapest_first(runs: Sequence[Run]) -> list[Run]:
    """The runs of a plan, in the order in which most cells stand soonest.

    Runs go by the cost of what they still need. A second seed counts as if it cost twice as much, a third one three
    times, so that new cells come before more seeds of old ones. For this to hold, finished runs must be among them.
    """
    cells: dict[str, list[Run]] = {}
    for run in runs:
        cells.setdefault(run.name.rpartition("-seed")[0], []).append(run)
    price = {run.folder: (place + 1) * remaining(run) for cell in cells.values() for place, run in enumerate(cell)}
    return sorted(runs, key=lambda run: price[run.folder])


def remaining(run: Run) -> float:
    """Estimated seconds that a run still needs."""
    return run.estimate * (1 - read_progress(run.folder).step / run.steps)


class Display:
    """Shows runs as they start, progress and end, on standard error."""

    def __init__(self, runs: Sequence[Run]):
        self.console = Console(stderr=True)
        self.live = self.console.is_terminal
        self.bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=self.console,
            disable=not self.live,
        )
        self.lines: dict[Path, TaskID] = {}
        self.first: dict[Path, float] = {}
        self.at: dict[Path, int] = {}
        self.count, self.done = len(runs), 0
        self.made = {run.folder: 0.0 for run in runs}
        self.several = len({run.folder.parent for run in runs}) > 1
        self.all_lengths = sum(run.length for run in runs)
        self.begun = time.monotonic()
        self.all = self.bars.add_task("all runs", total=self.count, note="")

    def __enter__(self) -> "Display":
        self.bars.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.bars.stop()

    def kept(self, outcome: Outcome) -> None:
        """A run that needs no work."""
        self.done += 1
        self.all_lengths -= outcome.run.length
        self.bars.update(self.all, completed=self.done)

    def started(self, run: Run) -> None:
        self.at[run.folder] = read_progress(run.folder).step
        self.lines[run.folder] = self.bars.add_task(self.name(run), total=run.length, note="starting")
        if not self.live:
            self.remark(f"{self.name(run)}: started")

    def progressed(self, run: Run, progress: trainings.Progress) -> None:
        if run.folder not in self.lines or not progress.step:
            return
        done = run.done(progress)
        self.first.setdefault(run.folder, done)
        left = progress.seconds / max(done, 1e-9) * (run.length - done)
        loss = "" if progress.loss is None else f"loss {progress.loss:.3g}, "
        self.bars.update(self.lines[run.folder], completed=done, note=f"{loss}{clock(left)} left")
        self.made[run.folder] = done - self.first[run.folder]
        made = sum(self.made.values())
        if made:
            left = (time.monotonic() - self.begun) / made * (self.all_lengths - made - sum(self.first.values()))
            self.bars.update(self.all, note=f"{clock(left)} left")

    def stopped(self, run: Run) -> None:
        """A run whose time is over; what it did since its last round is lost."""
        step = read_progress(run.folder).step
        hint = "goes on from there" if step > self.at[run.folder] else "give --within more time than a round takes"
        self.remark(f"{self.name(run)}: stopped after step {step:,}, {hint}")

    def ended(self, outcome: Outcome) -> None:
        self.done += 1
        self.bars.remove_task(self.lines.pop(outcome.run.folder))
        self.bars.update(self.all, completed=self.done)
        self.remark(f"{self.done}/{self.count} {self.name(outcome.run)}: {describe(outcome)}")

    def name(self, run: Run) -> str:
        """What a run is called: with its table's folder where a sweep has several."""
        return f"{run.folder.parent.name}/{run.name}" if self.several else run.name

    def remark(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def describe(outcome: Outcome) -> str:
    """An outcome in a few words."""
    if outcome.status != "finished":
        return f"{outcome.status}, {outcome.reason}" if outcome.status == "failed" else outcome.reason
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in outcome.result["metrics"].items())
    return f"{metrics} ({clock(outcome.result['seconds'])})"


def clock(seconds: float) -> str:
    """
    >>> clock(5.2), clock(75), clock(7260), clock(1e6)
    ('5 s', '1 min 15 s', '2 h 1 min', '11.6 d')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 4 * 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole / 86_400:,.1f} d"

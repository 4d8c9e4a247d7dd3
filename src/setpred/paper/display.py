"""What a person sees while runs are trained: a line a running run, or plain lines where there is no terminal."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from . import trainings
from .trainings import Outcome, Run


class Display:
    """Shows runs as they start, progress and end, on standard error."""

    def __init__(self, runs: Sequence[Run]):
        self.console = Console(stderr=True)
        self.live = self.console.is_terminal
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=self.console,
            disable=not self.live,
        )
        self.lines: dict[Path, TaskID] = {}
        self.first: dict[Path, int] = {}
        self.count, self.done = len(runs), 0
        self.steps = {run.folder: 0 for run in runs}
        self.several = len({run.folder.parent for run in runs}) > 1
        self.all_steps = sum(run.steps for run in runs)
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
        self.all_steps -= outcome.run.steps
        self.bars.update(self.all, completed=self.done)

    def started(self, run: Run) -> None:
        self.lines[run.folder] = self.bars.add_task(self.name(run), total=run.steps, note="starting")
        if not self.live:
            self.console.print(f"{self.name(run)}: started", highlight=False, soft_wrap=True)

    def progressed(self, run: Run, progress: trainings.Progress) -> None:
        if run.folder not in self.lines or not progress.step:
            return
        self.first.setdefault(run.folder, progress.step)
        left = progress.seconds / progress.step * (run.steps - progress.step)
        loss = "" if progress.loss is None else f"loss {progress.loss:.3g}, "
        self.bars.update(self.lines[run.folder], completed=progress.step, note=f"{loss}{clock(left)} left")
        self.steps[run.folder] = progress.step - self.first[run.folder]
        made = sum(self.steps.values())
        if made:
            left = (time.monotonic() - self.begun) / made * (self.all_steps - made - sum(self.first.values()))
            self.bars.update(self.all, note=f"{clock(left)} left")

    def ended(self, outcome: Outcome) -> None:
        self.done += 1
        self.bars.remove_task(self.lines.pop(outcome.run.folder))
        self.bars.update(self.all, completed=self.done)
        self.remark(f"{self.done}/{self.count} {self.name(outcome.run)}: {told(outcome)}")

    def name(self, run: Run) -> str:
        """What a run is called: with its table's folder where a sweep has several."""
        return f"{run.folder.parent.name}/{run.name}" if self.several else run.name

    def remark(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def told(outcome: Outcome) -> str:
    """An outcome in a few words."""
    if outcome.status != "finished":
        return f"{outcome.status}, {outcome.reason}" if outcome.status == "failed" else outcome.reason
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in outcome.result["metrics"].items())
    return f"{metrics} ({clock(outcome.result['seconds'])})"


def clock(seconds: float) -> str:
    """
    >>> clock(5.2), clock(75), clock(7260)
    ('5 s', '1 min 15 s', '2 h 1 min')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

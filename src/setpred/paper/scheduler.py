"""Many runs at once: which wait, which are trained, and what a person should know; where is an executor's business."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from .display import Display
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


def run_all(runs: Sequence[Run], executor: Executor) -> dict[Path, str]:
    """Train what is not finished.

    Returns what a person should know of runs that were neither finished nor failed, by their folders. An interrupt
    ends the trainings and goes on to the caller; runs that were under way resume at their last round when asked for
    again.
    """
    outcomes = [read_outcome(run) for run in runs]
    waiting = deque(outcome.run for outcome in outcomes if not outcome.final)
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
            while waiting or running:
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
    finally:
        for training in running:
            executor.cancel(training)
        executor.close()
    return remarks

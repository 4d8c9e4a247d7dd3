"""Many runs at once on the machines of a Ray cluster, whose disk for run folders all of them see.

A run is a Ray task that looks after the same process as on one machine. When its worker or machine dies, Ray starts the
task again elsewhere, and the run goes on from its last round.
"""

import logging
import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import UsageError
from .processes import end, how_it_ended, start
from .trainings import TAKEN, Outcome, Run, read_outcome

RETRIES = 10
PATIENCE = 60.0
"""Seconds in which the process of a worker that died must have let go of its run."""


class RayCluster:
    """Trains runs on the cluster at `address`: by default one per GPU, or one per core where there are none."""

    def __init__(self, address: str, workers: int | None = None):
        self.ray, self.workers, self.gpu = connected(address), workers, False

    def expect(self, runs: Sequence[Run]) -> None:
        self.gpu = "GPU" in self.ray.cluster_resources() and runs[0].settings.trainer.accelerator != "cpu"

    def places(self) -> int:
        return self.workers or int(self.ray.cluster_resources().get("GPU" if self.gpu else "CPU", 1))

    def start(self, run: Run) -> Any:
        run.folder.mkdir(parents=True, exist_ok=True)
        task = self.ray.remote(num_cpus=1, num_gpus=int(self.gpu), max_retries=RETRIES)(train_here)
        return task.remote(replace(run, folder=run.folder.resolve()))

    def ended(self, trainings: Sequence[Any]) -> list[Any]:
        ended, _ = self.ray.wait(list(trainings), timeout=0.5) if trainings else ([], [])
        return ended

    def outcome(self, training: Any, run: Run) -> Outcome:
        outcome, remark = read_outcome(run), _remark(self.ray, training)
        return replace(outcome, reason=remark) if remark and outcome.status == "unfinished" else outcome

    def cancel(self, training: Any) -> None:
        self.ray.cancel(training, force=True)

    def close(self) -> None:
        self.ray.shutdown()


def connected(address: str) -> Any:
    """Ray, connected to a cluster."""
    try:
        import ray
    except ImportError:
        raise UsageError("--ray needs the package ray: pip install 'setpred[ray]'") from None
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"no Ray cluster answers at {address} ({reason}): start one with ray start --head") from None
    return ray


def train_here(run: Run) -> str:
    """Train a run on this machine; says what a person should know if it neither finished nor failed."""
    if not run.folder.is_dir():
        return f"was not started: {platform.node()} does not see {run.folder}, use a folder on a shared disk"
    deadline = time.monotonic() + PATIENCE
    while (process := start(run, threads=1, gpu=None)) is None:
        if time.monotonic() > deadline:
            return TAKEN
        time.sleep(0.5)
    try:
        process.wait()
        outcome = how_it_ended(run, process)
        return outcome.reason if outcome.status == "unfinished" else ""
    finally:
        end(process)


def _remark(ray: Any, reference: Any) -> str:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # of the task itself, as where setpred is not installed
        return f"failed on its machine ({str(error.cause).splitlines()[0][:200]}): the next call tries again"
    except ray.exceptions.RayError as error:
        return f"was given up by Ray after {RETRIES} retries ({type(error).__name__}): the next call goes on"

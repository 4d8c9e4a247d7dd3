"""Many runs at once on the machines of a Ray cluster, whose disk for run folders all of them see.

A run is a Ray task that looks after the same process as on one machine. When its worker or machine dies, Ray starts the
task again elsewhere, and the run goes on from its last round.
"""

import logging
import platform
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .display import Display
from .outcomes import read_outcome, read_progress
from .plan import Run
from .processes import end, how_it_ended, start

RETRIES = 10
PATIENCE = 60.0
"""Seconds in which the process of a worker that died must have let go of its run."""


def run_all(runs: Sequence[Run], address: str, workers: int | None = None) -> dict[Path, str]:
    """As `processes.run_all`, on the cluster at `address`: by default a run a GPU, or a core where there are none."""
    ray = connected(address)
    named = {run.folder.resolve(): run.folder for run in runs}
    runs = [replace(run, folder=run.folder.resolve()) for run in runs]
    outcomes = [read_outcome(run) for run in runs]
    waiting = deque(outcome.run for outcome in outcomes if not outcome.final)
    remarks: dict[Path, str] = {}
    running: dict[Any, Run] = {}
    with Display(runs) as shown:
        for outcome in outcomes:
            if outcome.final:
                shown.kept(outcome)
        try:
            while waiting or running:
                there = ray.cluster_resources()
                gpu = "GPU" in there and runs[0].settings.trainer.accelerator != "cpu"
                task = ray.remote(num_cpus=1, num_gpus=int(gpu), max_retries=RETRIES)(train_here)
                while waiting and len(running) < (workers or int(there.get("GPU" if gpu else "CPU", 1))):
                    run = waiting.popleft()
                    run.folder.mkdir(parents=True, exist_ok=True)
                    running[task.remote(run)] = run
                    shown.started(run)
                ended, _ = ray.wait(list(running), timeout=0.5)
                for run in running.values():
                    shown.progressed(run, read_progress(run.folder))
                for reference in ended:
                    run = running.pop(reference)
                    remark = _remark(ray, reference)
                    shown.ended(replace(read_outcome(run), reason=remark) if remark else read_outcome(run))
                    remarks |= {named[run.folder]: remark} if remark else {}
        finally:
            for reference in running:
                ray.cancel(reference, force=True)
            ray.shutdown()
    return remarks


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
            return "is being trained by another process"
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

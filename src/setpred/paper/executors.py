"""Where runs are trained: in processes of this machine, or on the machines of a Ray cluster.

Each run has a process of its own (`training_process.py`). A Ray task looks after the same process; when its worker or
machine dies, Ray starts the task again elsewhere, and the run goes on from its last round. All machines of a cluster
must see the run folders.
"""

import json
import logging
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..errors import UsageError
from ..training.run_lock import RunLockedError, locked_for_a_child, name_holder
from .trainings import TAKEN, Outcome, Run, read_outcome


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> list[str]:
    """The CUDA devices this process may use, as CUDA_VISIBLE_DEVICES names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not torch.cuda.is_available():
        return []
    return visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]


class Processes:
    """Trains `workers` runs at a time on this machine: by default one per GPU, or one per core where there is none."""

    def __init__(self, workers: int | None = None):
        self.workers = workers
        self.slots, self.cuda = 1, list[str]()
        self.taken: dict[subprocess.Popen[bytes], int] = {}

    def expect(self, runs: Sequence[Run]) -> None:
        self.cuda = gpus() if runs[0].settings.trainer.accelerator != "cpu" else []
        self.slots = max(1, min(self.workers or len(self.cuda) or cores(), len(runs)))

    def places(self) -> int:
        return self.slots

    def start(self, run: Run) -> subprocess.Popen[bytes] | None:
        slot = min(set(range(self.slots)) - set(self.taken.values()))
        gpu = self.cuda[slot % len(self.cuda)] if self.cuda else None
        process = start(run, max(1, cores() // self.slots), gpu)
        if process is not None:
            self.taken[process] = slot
        return process

    def ended(self, trainings: Sequence[subprocess.Popen[bytes]]) -> list[subprocess.Popen[bytes]]:
        time.sleep(0.2)
        return [process for process in trainings if process.poll() is not None]

    def outcome(self, training: subprocess.Popen[bytes], run: Run) -> Outcome:
        del self.taken[training]
        return how_it_ended(run, training)

    def cancel(self, training: subprocess.Popen[bytes]) -> None:
        end(training)

    def close(self) -> None:
        """There is nothing to let go of."""


def start(run: Run, threads: int, gpu: str | None) -> subprocess.Popen[bytes] | None:
    """The run's process, or None where another process already trains it.

    The child inherits the folder's lock, and holds it as long as it lives, whatever becomes of this process.
    """
    try:
        with locked_for_a_child(run.folder) as lock:
            process = _spawn(run, threads, gpu, lock)
            name_holder(lock, process.pid)
            return process
    except RunLockedError:
        return None


def _spawn(run: Run, threads: int, gpu: str | None, lock: int) -> subprocess.Popen[bytes]:
    environment = {"OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads), **os.environ}  # the user's first
    if gpu is not None and run.settings.trainer.devices == 1:
        environment["CUDA_VISIBLE_DEVICES"] = gpu
    with (run.folder / "output.txt").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "setpred.paper.training_process", str(run.folder), json.dumps(run.order)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            pass_fds=[lock],
            start_new_session=True,  # the terminal's Ctrl-C is for the parent, which ends its children in order
        )


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def how_it_ended(run: Run, process: subprocess.Popen[bytes]) -> Outcome:
    assert process.stdin is not None
    process.stdin.close()
    outcome = read_outcome(run)
    if outcome.status != "unfinished":
        return outcome
    code = process.returncode
    how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}, see {_relative(run)}/output.txt"
    return Outcome(run, "unfinished", reason=f"{how}: the next call goes on from its last round")


def _relative(run: Run) -> Path:
    return run.folder.relative_to(Path.cwd()) if run.folder.is_relative_to(Path.cwd()) else run.folder


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

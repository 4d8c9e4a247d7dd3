"""Many runs at once, a process each."""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import torch

from .display import Display
from .outcomes import Outcome, read_outcome, read_progress
from .plan import Run


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> list[str]:
    """The CUDA devices this process may use, as CUDA_VISIBLE_DEVICES names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not torch.cuda.is_available():
        return []
    return visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]


def run_all(runs: Sequence[Run], workers: int | None = None) -> dict[Path, str]:
    """Train what is not finished, `workers` runs at a time: by default one a GPU, or one a core where there is none.

    Returns what a person should know of runs that were neither finished nor failed, by their folders. An interrupt
    ends the processes and goes on to the caller; runs that were under way resume at their last round when asked for
    again.
    """
    outcomes = [read_outcome(run) for run in runs]
    waiting = deque(outcome.run for outcome in outcomes if not outcome.final)
    if not waiting:
        return {}
    cuda = gpus() if waiting[0].settings.trainer.accelerator != "cpu" else []
    slots = max(1, min(workers or len(cuda) or cores(), len(waiting)))
    remarks: dict[Path, str] = {}
    running: dict[int, tuple[Run, subprocess.Popen[bytes]]] = {}
    with Display(runs) as shown:
        for outcome in outcomes:
            if outcome.final:
                shown.kept(outcome)
        try:
            while waiting or running:
                for slot in range(slots):
                    if slot not in running and waiting:
                        run = waiting.popleft()
                        process = start(run, max(1, cores() // slots), cuda[slot % len(cuda)] if cuda else None)
                        if process is None:
                            remarks[run.folder] = "is being trained by another process"
                            shown.remark(f"{run.name} {remarks[run.folder]}")
                        else:
                            running[slot] = run, process
                            shown.started(run)
                time.sleep(0.2)
                for slot, (run, process) in list(running.items()):
                    shown.progressed(run, read_progress(run.folder))
                    if process.poll() is not None:
                        del running[slot]
                        outcome = how_it_ended(run, process)
                        shown.ended(outcome)
                        if outcome.status == "unfinished":
                            remarks[run.folder] = outcome.reason
        finally:
            for _, process in running.values():
                end(process)
    return remarks


def start(run: Run, threads: int, gpu: str | None) -> subprocess.Popen[bytes] | None:
    """The run's process, or None where another process already trains it.

    The lock belongs to the open file that the child inherits: it is held as long as the child lives, whatever becomes
    of this process, and no longer.
    """
    run.folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(run.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        process = _spawn(run, threads, gpu, lock)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{process.pid}\n".encode(), 0)
        return process
    except BlockingIOError:
        return None
    finally:
        os.close(lock)


def _spawn(run: Run, threads: int, gpu: str | None, lock: int) -> subprocess.Popen[bytes]:
    environment = {"OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads), **os.environ}  # the user's first
    if gpu is not None and run.settings.trainer.devices == 1:
        environment["CUDA_VISIBLE_DEVICES"] = gpu
    with (run.folder / "output.txt").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "setpred.paper.child", str(run.folder), json.dumps(run.order)],
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

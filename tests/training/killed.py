"""Lives of a command that is killed again and again: `python killed.py ORDER`, a JSON report comes out.

Everything is imported once, and each life is a fork of this process: a life then lasts as long as its work.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from setpred.paper.executors import Processes
from setpred.paper.reproduce import make_plan
from setpred.paper.scheduler import run_all
from setpred.paper.trainings import read_progress
from setpred.tasks import make_settings
from setpred.training.run import train
from setpred.training.run_folder import read_config

WRITING = os.O_WRONLY | os.O_RDWR


def train_in(folder: Path, order: dict[str, Any]) -> None:
    train(make_settings(order["task"], "idspn", "quick", 3, order["settings"]), folder, resume=True, quiet=True)


def reproduce_in(folder: Path, order: dict[str, Any]) -> None:
    run_all(make_plan(order["task"], order["words"], folder).runs, Processes(workers=2))


def die_at_file_operation(folder: Path, number: int) -> None:
    """End this process, as a kill would, just before it opens for writing, renames or deletes for the n-th time."""
    left = number

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        wanted = event in ("os.rename", "os.remove", "os.mkdir") or (event == "open" and arguments[2] & WRITING)
        if wanted and str(arguments[0]).startswith(str(folder)):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def begin(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        work()
        os._exit(0)
    return pid


def finished(pid: int, seconds: float | None = None) -> bool:
    """Whether a life ended by itself, or was killed: after `seconds`, or by its own hand."""
    deadline = time.monotonic() + (seconds or 600)
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            if os.WIFSIGNALED(status):
                return False
            assert os.WEXITSTATUS(status) == 0, "a life ended with an error"
            return True
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def steps_kept(folder: Path) -> list[int]:
    """How far each run in a folder has come; what is there can be read."""
    for config in folder.rglob("config.yaml"):
        read_config(config.parent)
        read_progress(config.parent)
    checkpoints = sorted(folder.rglob("*.ckpt"))
    return [torch.load(path, weights_only=True)["global_step"] for path in checkpoints if path.stem == "last"]


def main(order: dict[str, Any]) -> dict[str, Any]:
    root, draw = Path(order["root"]), random.Random(order["seed"])
    command = {"train": train_in, "reproduce": reproduce_in}[order["command"]]

    begun = time.monotonic()
    assert finished(begin(lambda: command(root / "whole", order)))
    length = time.monotonic() - begun

    kills = {"by the clock": 0, "at a file operation": 0}

    def live(folder: Path) -> bool:
        """One life, killed as long as there are kills left; whether it reached its end."""
        if sum(kills.values()) == order["kills"]:
            return finished(begin(lambda: command(folder, order)))
        operation = draw.choice([0, draw.randrange(1, 40)]) if order["command"] == "train" else 0

        def work() -> None:
            if operation:
                die_at_file_operation(folder, operation)
            command(folder, order)

        ended = finished(begin(work), None if operation else draw.uniform(0, 0.8 * length))
        if not ended:
            kills["at a file operation" if operation else "by the clock"] += 1
        return ended

    folders: list[Path] = []
    while sum(kills.values()) < order["kills"]:
        folder, kept = root / f"killed-{len(folders)}", [0]
        folders.append(folder)
        while not live(folder):
            kept, before = steps_kept(folder) or [0], kept
            assert sum(kept) >= sum(before), f"{folder} went back from {before} to {kept} steps"
    return {"whole": str(root / "whole"), "killed": [str(folder) for folder in folders], "kills": kills}


if __name__ == "__main__":
    report = main(json.loads(sys.argv[1]))
    print(json.dumps(report))

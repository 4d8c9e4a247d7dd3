"""What a result says about a run: the metrics, what they cost, and where they come from."""

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..tasks.settings import Settings


def summary(
    settings: Settings, steps: int, seconds: float, metrics: Any, cpu_seconds: float | None = None
) -> dict[str, Any]:
    """What a result says about a run."""
    return {
        "task": settings.task,
        "model": settings.model,
        "preset": settings.preset,
        "seed": settings.seed,
        "steps": steps,
        "seconds": round(seconds, 1),
        "cpu_seconds": cpu_seconds,
        "peak_megabytes": peak_megabytes(),
        "metrics": {name.removeprefix("test/"): value for name, value in metrics.items()},
        "versions": {
            "setpred": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "hardware": f"{os.cpu_count()} cores, {platform.machine()}, {torch.get_num_threads()} threads"
        + (f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""),
        "commit": commit(),
    }


def peak_megabytes() -> int | None:
    """The most memory that this process has had."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit


@cache
def commit() -> str | None:
    """The commit of the code that runs, with a + where files were changed since."""

    def git(*words: str) -> str:
        where = Path(__file__).parent
        return subprocess.run(["git", "-C", where, *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)  # a package may be installed inside another repository
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None

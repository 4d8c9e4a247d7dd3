"""A run of one's own: its model on the examples it was tested with."""

import math
from pathlib import Path
from typing import Any

import torch

from ..errors import UsageError
from ..tasks import find_task
from ..tasks.parts import build_part
from ..training.run_folder import load_run, read_config, read_result

EXAMPLES = 50


class ShownRun:
    """A finished run, loaded once and only read from then on."""

    def __init__(self, path: Path):
        self.changes = {"data.test": min(EXAMPLES, read_config(path).data.test)}
        self.path, self.result = path, read_result(path)
        self.settings, self.experiment = load_run(path, self.changes)
        self.batch = self.experiment.split("test")

    def about(self) -> dict[str, Any]:
        metrics = {k: v for k, v in self.result["metrics"].items() if v is not None and math.isfinite(v)}
        return {
            "name": self.path.name,
            "task": self.settings.task,
            "model": self.settings.model,
            "metrics": {name: float(f"{value:.3g}") for name, value in metrics.items()},
            "examples": len(self.batch[0]),
            "steps": build_part("solver", self.settings.solver).iterations(),
        }

    @torch.no_grad()
    def example(self, index: int, steps: int) -> dict[str, Any]:
        """One test example as the page shows it; `kind` says how."""
        if not 0 <= index < len(self.batch[0]):
            raise UsageError(f"there is no example {index}: this run shows 0 to {len(self.batch[0]) - 1}")
        task = find_task(self.settings.task)
        one = tuple(part[index : index + 1] for part in self.batch)
        state = task.view.state(self.experiment, one, index, steps)
        changes = self.changes | ({"solver.eval_steps": steps} if task.iterates(self.settings.model) else {})
        return {**state, "code": run_code(self.path, changes, index)}


def run_code(path: Path, changes: dict[str, Any], index: int) -> str:
    return f"""\
from pathlib import Path
import torch
from setpred.training.run_folder import load_run

settings, experiment = load_run(Path({str(path)!r}), {changes})
example = [part[{index} : {index + 1}] for part in experiment.split("test")]
with torch.no_grad():
    print(experiment.sets(example))
    print(experiment.judge(example))
"""

"""Which equivariance a model has: trained ones from a run folder, fresh ones by name."""

import warnings
from pathlib import Path

import torch

from .. import equivariance
from ..equivariance import Report
from ..errors import unknown, usage_errors
from ..tasks import TASKS, find_task, make_experiment, make_settings
from .run_folder import load_run, read_config

EXAMPLES = {"push_apart": equivariance.push_apart, "sort_jacobian": equivariance.sort_jacobian}
SETS = 8


def check_run(run: Path) -> Report:
    """The verdict on a trained run, on sets of its own task.

    In float64: the order of nearly equal elements must not hang on rounding.
    """
    _, experiment = load_run(run, {"data.test": min(SETS, read_config(run).data.test)})
    with usage_errors(f"{run} cannot be checked"):
        report = experiment.double().check()
    if experiment.diagnostics().get("diverged", torch.zeros(())) > 0:
        warnings.warn("inner optimisations diverged: the verdict is about the iterates before that", stacklevel=2)
    return report


def check_named(name: str) -> Report:
    """The verdict on a function of the paper, or on a small untrained model of the first task."""
    if name in EXAMPLES:
        return equivariance.check(EXAMPLES[name], size=5)
    task = next(iter(TASKS))
    models = find_task(task).models
    if name not in models:
        raise unknown("run folder or model", name, [*EXAMPLES, *models])
    torch.manual_seed(0)
    settings = make_settings(task, name, "quick", overrides={"data.test": SETS})
    return make_experiment(settings).eval().double().check()

"""What trained models do on test examples: predictions, their errors, and the way of the inner optimisation."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..tasks import find_task
from ..tasks.experiment import Batch, Experiment
from ..training.run_folder import load_run
from ..views.view import Examples
from .runs import Run

TRACED = 128
ITERATIONS = 100


@dataclass
class Descent:
    """The inner optimisation of some test examples, `[iterations + 1, examples]` each; infinite once diverged."""

    objective: Tensor
    error: Tensor


@dataclass
class Predictions:
    """What a run predicts for test examples of its own task; `descent` is of a model that has an inner optimisation."""

    run: Run
    examples: Examples
    descent: Descent | None


@torch.no_grad()
def predict_examples(run: Run) -> Predictions | None:
    """Predict some test examples; None where a report has no pictures of them."""
    if not run.finished:
        return None
    _, experiment = load_run(run.path, {"data.test": min(find_task(run.task).shown, run["data.test"])})
    examples = experiment.examples()
    if examples is None:
        return None
    return Predictions(run, examples, trace(experiment, tuple(t[:TRACED] for t in experiment.split("test"))))


def trace(experiment: Experiment, batch: Batch) -> Descent | None:
    """Solve for `ITERATIONS` instead of the usual number, and judge every iterate."""
    way = experiment.way(batch, ITERATIONS)
    if way is None:
        return None
    error = torch.full_like(way.loss, torch.inf)
    for row, sets in zip(error, way.sets, strict=True):
        # A diverged iterate may be finite and still too large for its cost to be.
        fine = (sets.abs() < 1e12).flatten(1).all(dim=1)
        row[fine] = experiment.losses(sets[fine], tuple(t[fine] for t in batch))
    return Descent(way.loss.nan_to_num(nan=torch.inf), error)

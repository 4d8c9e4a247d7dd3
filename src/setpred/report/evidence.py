"""What trained models do on test examples: predictions, their errors, and the way of the inner optimisation."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..costs import Cost
from ..matching import COSTS, assign, hungarian_loss
from ..training.autoencoding import Autoencoding
from ..training.clevr import Clevr
from ..training.experiment import Experiment
from ..training.numbering import Numbering
from ..training.own import OwnFolder
from ..training.run_folder import load_run
from .runs import Run

EXAMPLES = 2_000
TRACED = 128
ITERATIONS = 100
SCENES = 256
STAGES = (5, 10, 20, 40)


@dataclass
class Descent:
    """The inner optimisation of some test examples, `[iterations + 1, examples]` each; infinite once diverged."""

    objective: Tensor
    error: Tensor


@dataclass
class Evidence:
    """Predictions of a run, on test examples of its own task.

    Attributes:
        inputs: class of each element in numbering, `[examples, n]`; images of scenes, or what a folder of one's own
            holds; None in autoencoding.
        target: `[examples, n, d]`, or the numbers `[examples, n]` in numbering.
        predicted: as `target`.
        error: of each example, `[examples]`: its loss, or how many of its numbers are wrong.
        descent: of a model that has an inner optimisation.
        iterates: of scenes, the predicted sets by their name: after some iterations, or the only ones.
    """

    run: Run
    inputs: Tensor | None
    target: Tensor
    predicted: Tensor
    error: Tensor
    descent: Descent | None
    iterates: dict[str, Tensor] = field(default_factory=dict)


@torch.no_grad()
def gather(run: Run) -> Evidence | None:
    """Predict `EXAMPLES` test examples; None where a report has no pictures of them."""
    if not run.finished:
        return None
    if run.task == "clevr":
        return gather_scenes(run)
    if run.task == "folder":
        return gather_folder(run)
    _, experiment = load_run(run.path, {"data.test": min(EXAMPLES, run["data.test"])})
    test = experiment.split("test")
    if isinstance(experiment, Autoencoding) and len(test) > 1:  # sets of different sizes: the playground draws them
        return None
    predicted = torch.cat([experiment(chunk) for chunk in test[0].split(256)])
    descent = trace(experiment, tuple(t[:TRACED] for t in test))
    if isinstance(experiment, Autoencoding):
        (sets,) = test
        return Evidence(run, None, sets, predicted, hungarian_loss(predicted, sets), descent)
    inputs, target = (t.argmax(dim=-1) for t in test)
    numbers = predicted.argmax(dim=-1)
    wrong = torch.stack([wrong_numbers(c, p).sum() for c, p in zip(inputs, numbers, strict=True)])
    return Evidence(run, inputs, target, numbers, wrong, descent)


def gather_scenes(run: Run) -> Evidence:
    """Predict some test scenes, and keep what the decoder had after each of the `STAGES`."""
    _, experiment = load_run(run.path)
    assert isinstance(experiment, Clevr)
    inputs, target = experiment.scenes("val", min(SCENES, run["data.test"]))
    chunks = inputs.split(64)
    predicted = torch.cat([experiment(chunk) for chunk in chunks])
    ways = [way.sets[list(STAGES)] for chunk in chunks if (way := experiment.way((chunk,), max(STAGES))) is not None]
    iterates = {"predicted": predicted}
    if ways:
        iterates = dict(zip((f"{stage} iterations" for stage in STAGES), torch.cat(ways, dim=1), strict=True))
    error = hungarian_loss(predicted, target)
    descent = trace(experiment, (inputs[:TRACED], target[:TRACED]))
    return Evidence(run, inputs if run["data.images"] else None, target, predicted, error, descent, iterates)


def gather_folder(run: Run) -> Evidence:
    """Predict some examples of a folder of one's own."""
    _, experiment = load_run(run.path, {"data.test": min(SCENES, run["data.test"])})
    assert isinstance(experiment, OwnFolder)
    inputs, target, _ = experiment.split("test")
    predicted = torch.cat([experiment(chunk) for chunk in inputs.split(64)])
    descent = trace(experiment, (inputs[:TRACED], target[:TRACED]))
    return Evidence(run, inputs, target, predicted, hungarian_loss(predicted, target, experiment.cost), descent)


def trace(experiment: Experiment, batch: tuple[Tensor, ...]) -> Descent | None:
    """Solve for `ITERATIONS` instead of the usual number, and judge every iterate."""
    way = experiment.way(batch, ITERATIONS)
    if way is None:
        return None
    inputs, target = batch[0], batch[-1]
    cost: str | Cost = experiment.cost if isinstance(experiment, OwnFolder | Numbering) else "huber"
    classes = inputs.argmax(dim=-1) if isinstance(experiment, Numbering) else None
    error = torch.full_like(way.loss, torch.inf)
    for row, sets in zip(error, way.sets, strict=True):
        # A diverged iterate may be finite and still too large for its cost to be.
        fine = (sets.abs() < 1e12).flatten(1).all(dim=1)
        of_class = None if classes is None else classes[fine]
        row[fine] = hungarian_loss(sets[fine], target[fine], cost, same_class=of_class)
    return Descent(way.loss.nan_to_num(nan=torch.inf), error)


def matched(predicted: Tensor, target: Tensor) -> Tensor:
    """The target elements in the order of the predicted ones they are matched with, both `[n, d]`."""
    cost = COSTS["huber"](predicted[:, None], target[None])
    return target[assign(cost[None]).target[0]]


def wrong_numbers(classes: Tensor, numbers: Tensor) -> Tensor:
    """Which elements are wrong, `[n]`: a class of k elements needs each of 0 to k - 1 once, whoever has it.

    >>> wrong_numbers(torch.tensor([0, 0, 0, 1]), torch.tensor([1, 1, 0, 2])).tolist()
    [False, True, False, True]
    """
    same = classes[:, None] == classes[None, :]
    too_large = numbers >= same.sum(dim=1)
    repeated = (same & (numbers[:, None] == numbers[None, :])).tril(diagonal=-1).any(dim=1)
    return too_large | repeated

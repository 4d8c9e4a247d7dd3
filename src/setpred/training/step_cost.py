"""What steps of training take: memory and time of large sets, estimated, and how many fit a budget, measured.

Memory grows with the elements of a batch times the widths of the inner encoder, and with the pairs of elements that
are matched; time also with the triples of elements.
"""

import math
import time
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..adjoints import Unrolled
from ..decoder import SetDecoder
from ..encoders import RelationEncoder
from ..errors import UsageError
from ..tasks.experiment import Experiment
from ..tasks.settings import Settings, changed

if TYPE_CHECKING:
    from collections.abc import Callable

    import lightning as L

    from .module import TrainingModule

NOTABLE = 200
"""Elements of a set from which on its cost is worth a line."""
KEPT = 8
"""Numbers of memory for each activation of the inner encoder while its gradient is differentiated."""
AROUND = 14
"""Iterations' worth of work around the descent: the last gradient with a graph, and the backward pass."""
TRIPLE = 6e-11
"""Seconds for each triple of elements in a match of random sets, as measured for 500 and for 1,000 elements."""

ROUNDS = 8
"""Into which a budget is divided; it holds at least a step for each."""
FIRST, MOST = 2, 200
"""Steps of a round that is measured."""
MEASURED = 0.02
"""The fraction of the budget that a measurement should take at least."""


@dataclass(frozen=True)
class StepCost:
    """Of one step: bytes of memory, and seconds on a processor where nothing is compiled for an accelerator."""

    size: int
    memory: float
    seconds: float

    def __str__(self) -> str:
        minutes = self.seconds / 60
        span = f"{self.seconds:.1f} s" if minutes < 2 else f"{minutes:,.0f} minutes" if minutes < 120 else "hours"
        return (
            f"sets of up to {self.size:,} elements: a training step takes about {self.memory / 1e9:.1f} GB and "
            f"{span} on one core"
        )


def step_cost(experiment: Experiment) -> StepCost | None:
    """The cost of a step, or None where no set is large."""
    settings = experiment.settings
    decoder = next((part for part in experiment.modules() if isinstance(part, SetDecoder)), None)
    predictor = experiment.as_predictor()
    size = getattr(decoder, "size", 0) if predictor is None else predictor.schema.size
    if size < NOTABLE:
        return None
    batch = min(settings.optim.batch, settings.data.train)
    pairs = batch * size**2
    memory = 4.0 * pairs + 16.0 * size**2  # all costs, and those of one example in double precision
    seconds = TRIPLE * batch * size**3
    if decoder is not None:
        inner = decoder.encoder
        hidden, latent = (getattr(inner, name, settings.net.latent) for name in ("hidden", "latent"))
        rows = pairs if isinstance(inner, RelationEncoder) else batch * size
        steps = decoder.solver.iterations(training=True)
        unrolled = steps if isinstance(decoder.adjoint, Unrolled) else 1
        memory += 4.0 * KEPT * rows * (hidden + latent) * unrolled
        products = 4.0 * rows * (decoder.dim * hidden + hidden * latent) * (steps + AROUND * unrolled)
        seconds += products / _products_a_second()
    return StepCost(size, memory, seconds)


def check_cost(experiment: Experiment) -> None:
    """Raise where a step would take more memory than `trainer.memory` gigabytes."""
    cost, limit = step_cost(experiment), experiment.settings.trainer.memory
    if cost is not None and cost.memory > 1e9 * limit:
        raise UsageError(
            f"{cost}, trainer.memory is {limit:g}: lower optim.batch or net.hidden and net.latent, or raise "
            "trainer.memory if this machine has it"
        )


def paced(module: "TrainingModule", trainer_for: "Callable[[Settings], L.Trainer]") -> Settings:
    """The settings of a training with as many steps as fit `optim.budget`, in `ROUNDS` rounds.

    A copy of the model is trained for four short rounds. The first is not counted, because compilers work in it, nor is
    the last: inner iterations may grow from one half of training to the other, and the two rounds between have both.
    """
    from .module import TrainingModule  # loads Lightning, which an estimate does not need

    settings = module.settings
    budget, steps, pace = settings.optim.budget, FIRST, 0.0
    assert budget is not None
    while True:
        short = changed(settings, {"optim.steps": 4 * steps, "trainer.round": steps})
        probe = TrainingModule(deepcopy(module.experiment), short)
        probe.experiment.settings = short
        probe.borrow_data(module)
        trainer_for(short).fit(probe)
        seconds = sum(probe.cpu_of_rounds[1:3])
        pace = seconds / (2 * steps)
        if seconds >= MEASURED * budget or steps == MOST:
            break
        steps = min(MOST, max(2 * steps, math.ceil(1.5 * MEASURED * budget / (2 * max(pace, 1e-6)))))
    count = int(budget / pace)
    if count < ROUNDS:
        raise UsageError(
            f"optim.budget={budget:g}: a step of {settings.model} takes {pace:.2g} processor seconds, and {ROUNDS} are "
            f"the fewest: give {math.ceil(ROUNDS * pace)} or more"
        )
    return changed(settings, {"optim.steps": count, "trainer.round": math.ceil(count / ROUNDS)})


def _products_a_second() -> float:
    """Multiplications and additions of matrix products that a core makes in a second, measured now."""
    matrix = torch.zeros(512, 512)
    began = time.process_time()
    torch.mm(matrix, matrix)
    return 2 * 512**3 / max(time.process_time() - began, 1e-4)

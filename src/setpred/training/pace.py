"""How many steps fit a budget of processor seconds: measured before the first of them."""

import math
from copy import deepcopy
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..tasks.settings import Settings, changed
from .module import TrainingModule

if TYPE_CHECKING:
    from collections.abc import Callable

    import lightning as L

ROUNDS = 8
"""Into which a budget is divided; it holds at least a step for each."""
FIRST, MOST = 2, 200
"""Steps of a round that is measured."""
MEASURED = 0.02
"""The fraction of the budget that a measurement should take at least."""


def paced(module: TrainingModule, trainer_for: "Callable[[Settings], L.Trainer]") -> Settings:
    """The settings of a training with as many steps as fit `optim.budget`, in `ROUNDS` rounds.

    A copy of the model is trained for four short rounds. The first is not counted, because compilers work in it, nor is
    the last: inner iterations may grow from one half of training to the other, and the two rounds between have both.
    """
    settings = module.settings
    budget, steps, pace = settings.optim.budget, FIRST, 0.0
    assert budget is not None
    while True:
        short = changed(settings, {"optim.steps": 4 * steps, "trainer.round": steps})
        probe = TrainingModule(deepcopy(module.experiment), short)
        probe.experiment.settings = short
        probe.share_data(module)
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

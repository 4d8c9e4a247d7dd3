"""What changes over training: the inner iterations of a step, and the learning rate."""

import math
import random
import re
from collections.abc import Callable

from ..data.synthetic import mixed_seed
from ..errors import UsageError, unknown

SCHEDULE = re.compile(r"(?P<parts>[1-9]\d*(,[1-9]\d*)*)|(?P<random>random-)?(?P<low>[1-9]\d*)-(?P<high>[1-9]\d*)")
WARM_UP = 1_000
HALF_LIFE = 50_000


def iterations_at(schedule: str, step: int, steps: int, seed: int = 0) -> int:
    """The inner iterations of training step `step` of `steps`.

    | schedule | iterations |
    |---|---|
    | `20,40` | 20 in the first half of training, 40 in the second; any number of equal parts |
    | `1-40` | evenly from 1 to 40 |
    | `random-20-40` | 20 to 40, drawn for each step |

    >>> [iterations_at("10,20,30,40", step, 8) for step in range(8)]
    [10, 10, 20, 20, 30, 30, 40, 40]
    >>> [iterations_at("1-4", step, 8) for step in range(8)]
    [1, 1, 2, 2, 3, 3, 4, 4]
    """
    found = SCHEDULE.fullmatch(schedule)
    if found is None or (found["low"] and int(found["low"]) > int(found["high"])):
        raise UsageError(f"optim.iterations={schedule} cannot be read: write 20,40 or 1-40 or random-20-40")
    if found["parts"]:
        choices = [int(part) for part in found["parts"].split(",")]
    else:
        choices = list(range(int(found["low"]), int(found["high"]) + 1))
    if found["random"]:
        return random.Random(mixed_seed(seed, step)).choice(choices)
    return choices[min(step * len(choices) // steps, len(choices) - 1)]


def rate_schedule(name: str, steps: int) -> Callable[[int], float]:
    """The factor of the learning rate at each step."""
    warm_up = min(WARM_UP, steps // 10)

    def cosine(step: int) -> float:
        return 0.5 * (1 + math.cos(math.pi * min(step / steps, 1)))

    schedules: dict[str, Callable[[int], float]] = {
        "constant": lambda step: 1.0,
        "cosine": cosine,
        "one-cycle": lambda step: min(1.0, (step + 1) / (steps // 20 + 1)) * cosine(step),
        "drop": lambda step: 1.0 if step < 0.9 * steps else 0.1,
        "halving": lambda step: min(1.0, (step + 1) / (warm_up + 1)) * 0.5 ** (step / HALF_LIFE),
    }
    if name not in schedules:
        raise unknown("optim.schedule", name, schedules)
    return schedules[name]

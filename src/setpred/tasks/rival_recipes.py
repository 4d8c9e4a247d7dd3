"""The rivals that any input has: their recipes, each as its paper trains it, and the models."""

from collections.abc import Callable
from typing import Any

from torch import nn

from ..baselines import AllAtOnce, CompetingSlots, LearnedQueries
from ..proposals import Proposer
from ..schema import Schema

RIVALS: dict[str, dict[str, Any]] = {
    "mlp": {},
    "queries": {
        "optim.weight_decay": 1e-4,
        "optim.schedule": "one-cycle",
        "optim.clip": 0.1,
    },
    "slots": {"optim.schedule": "one-cycle"},
    "slots-unrolled": {"optim.schedule": "one-cycle", "optim.clip": 1.0},
}
"""What each changes in the settings."""


def make_rival(
    name: str, schema: Schema, latent: int, encoder: Callable[[], nn.Module], tokens: Callable[[], nn.Module]
) -> Proposer:
    """One of `RIVALS`.

    Args:
        name: which.
        schema: what an element is.
        latent: length of the vectors that `encoder` makes.
        encoder: makes the module from inputs to vectors, which the MLP needs.
        tokens: makes the module from inputs to tokens, which queries and slots look at.
    """
    if name == "mlp":
        return AllAtOnce(schema, encoder(), latent)
    if name == "queries":
        return LearnedQueries(schema, tokens())
    if name == "slots-unrolled":
        return CompetingSlots(schema, tokens(), iterations=3, implicit=False)
    return CompetingSlots(schema, tokens())

"""Metrics: of single examples, and of whole splits over several processes as `torchmetrics` metrics."""

from .accuracy import (
    ElementAccuracy,
    ExactSetAccuracy,
    ObjectScores,
    element_accuracies,
    exact_matches,
    score_objects,
)
from .average_precision import Objects, SetAveragePrecision

__all__ = [
    "ElementAccuracy",
    "ExactSetAccuracy",
    "ObjectScores",
    "Objects",
    "SetAveragePrecision",
    "element_accuracies",
    "exact_matches",
    "score_objects",
]

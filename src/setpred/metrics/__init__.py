"""Metrics: of single examples, and of whole splits over several processes as `torchmetrics` metrics."""

from .accuracy import ElementAccuracy, ExactSetAccuracy, element_accuracies, exact_matches
from .average_precision import Objects, SetAveragePrecision
from .object_scores import ObjectScores, score_objects

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

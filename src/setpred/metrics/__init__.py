"""Metrics: of single examples, and of whole splits over several processes as `torchmetrics` metrics."""

from .average_precision import Objects, SetAveragePrecision
from .elementwise import ElementAccuracy, element_accuracies
from .exact import ExactSetAccuracy, exact_matches
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

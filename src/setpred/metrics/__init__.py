"""Metrics: of single examples, and of whole splits over several processes as `torchmetrics` metrics."""

from .average_precision import Objects, SetAveragePrecision
from .exact import ExactSetAccuracy, exact_matches
from .object_scores import ObjectScores, score_objects

__all__ = ["ExactSetAccuracy", "ObjectScores", "Objects", "SetAveragePrecision", "exact_matches", "score_objects"]

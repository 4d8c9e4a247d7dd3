"""How far predicted objects agree with the true ones, field by field."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..matching import assign
from ..schema import Schema


@dataclass
class ObjectScores:
    """Of each example: whether all is right, a score, and the fraction of its objects with each field right."""

    exact: Tensor
    """`[batch]` bool: as many objects as there are, each with every field right"""
    score: Tensor
    """`[batch]` in [0, 1]: the closeness of fields by their weights, over the objects that are there or predicted"""
    fields: Tensor
    """`[batch, fields]`: over the objects there are; NaN without any"""


@torch.no_grad()
def score_objects(
    schema: Schema, prediction: Tensor, target: Tensor, target_mask: Tensor, tolerance: float = 0.1
) -> ObjectScores:
    """How far predicted objects agree with the true ones: matched so that most are right, then for the highest score.

    Args:
        schema: says how close fields are (see `Schema.closeness`; ½ is right) and what each counts in the score.
        prediction: elements [batch, n, dim]; with presence, those that reach 0.5 are objects.
        target: elements [batch, m, dim].
        target_mask: [batch, m] bool, true where a target object exists.
        tolerance: of numbers and angles, in the scale of their field.

    >>> from setpred.schema import Category, Real, Schema
    >>> schema = Schema({"at": Real(range=(0, 10)), "kind": Category("cat", "dog")}, size=2)
    >>> target, mask = schema.encode_batch([[{"at": 1.0, "kind": "cat"}, {"at": 9.0, "kind": "dog"}]])
    >>> guess = schema.encode([{"at": 9.0, "kind": "cat"}, {"at": 1.0, "kind": "cat"}])
    >>> score_objects(schema, guess[None], target, mask)
    ObjectScores(exact=tensor([False]), score=tensor([0.7500]), fields=tensor([[1.0000, 0.5000]]))
    """
    there = prediction[..., -1] >= 0.5 if schema.presence else prediction.new_ones(prediction.shape[:2]).bool()
    close = schema.closeness(prediction[:, :, None], target[:, None], tolerance)  # [batch, n, m, fields]
    scores, whole = close @ schema.field_weights.to(close), (close >= 0.5).all(-1)
    # One object that is right outweighs all scores together.
    pairs = assign(-scores - (1 + target.shape[1]) * whole, prediction_mask=there, target_mask=target_mask)
    example = torch.arange(len(target), device=target.device)[:, None]
    found = close[example, pairs.prediction, pairs.target] * pairs.mask[..., None]
    actual, predicted = target_mask.sum(1), there.sum(1)
    larger = torch.maximum(actual, predicted)
    return ObjectScores(
        exact=(actual == predicted) & ((found >= 0.5).all(-1).sum(1) == actual),
        score=torch.where(larger > 0, (found @ schema.field_weights.to(found)).sum(1) / larger.clamp(min=1), 1.0),
        fields=(found >= 0.5).sum(1) / actual[:, None],
    )


def has_repeats(target: Tensor, mask: Tensor) -> Tensor:
    """Which sets hold two equal elements: [batch, m, dim] and the mask [batch, m] of what exists -> [batch] bool.

    >>> target = torch.tensor([[[1.0], [2.0], [1.0]], [[1.0], [2.0], [0.0]]])
    >>> has_repeats(target, torch.tensor([[True] * 3, [True, True, False]]))
    tensor([ True, False])
    """
    equal = (target[:, :, None] == target[:, None]).all(-1) & mask[:, :, None] & mask[:, None]
    return equal.triu(diagonal=1).flatten(1).any(1)

"""How far predicted objects agree with the true ones, field by field."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..matching import assign
from ..schema import Schema


@dataclass
class ObjectScores:
    """For each example: whether all objects are right, a score, and per field the fraction of objects with it right."""

    exact: Tensor
    """`[batch]` bool: the number of objects is right, and so is every field of each"""
    score: Tensor
    """`[batch]` in [0, 1]: the weighted closeness of the fields, summed over pairs and divided by the larger number of
    objects"""
    fields: Tensor
    """`[batch, fields]`: over the true objects; NaN for an example without objects"""


@torch.no_grad()
def score_objects(
    schema: Schema, prediction: Tensor, target: Tensor, target_mask: Tensor, tolerance: float = 0.1
) -> ObjectScores:
    """How far predicted objects agree with the true ones.

    Objects are matched so that as many as possible are entirely right, and among these matches for the highest score.

    Args:
        schema: how close two values of a field are (`Schema.closeness`; ½ or more is right), and the weight of each
            field.
        prediction: elements [batch, n, dim]. If the schema has presence, elements with at least 0.5 are objects.
        target: elements [batch, m, dim].
        target_mask: [batch, m] bool, true where a target object exists.
        tolerance: the error up to which a number or angle is right, as a fraction of the scale of its field.

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
    """Which sets hold two equal elements: sets [batch, m, dim] and their mask [batch, m] -> [batch] bool.

    >>> target = torch.tensor([[[1.0], [2.0], [1.0]], [[1.0], [2.0], [0.0]]])
    >>> has_repeats(target, torch.tensor([[True] * 3, [True, True, False]]))
    tensor([ True, False])
    """
    equal = (target[:, :, None] == target[:, None]).all(-1) & mask[:, :, None] & mask[:, None]
    return equal.triu(diagonal=1).flatten(1).any(1)

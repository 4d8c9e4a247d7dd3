"""Accuracy: the fractions of examples, of elements, and of the fields of objects that are right."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from ..matching import Classes, assign, check_classes
from ..padding import masks_of_both
from ..schema import Schema
from ..tensors import check_device


class ExactSetAccuracy(Metric):
    """Fraction of examples in which every element is right.

    An element is right if its largest number is at the right label (argmax). An example is right if each of its target
    elements can be paired with a prediction of its own that has the same argmax (and the same class, if class numbers
    are given). Matching by any of the losses agrees, because the one-hot vector of the argmax is the nearest one.

    >>> metric = ExactSetAccuracy()
    >>> target = torch.nn.functional.one_hot(torch.tensor([[0, 1], [2, 2]]))
    >>> prediction = torch.tensor([[[0.1, 0.8, 0.1], [0.7, 0.2, 0.1]], [[0.0, 0.0, 1.0], [0.9, 0.0, 0.1]]])
    >>> metric(prediction, target)
    tensor(0.5000)
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    correct: Tensor
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("correct", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("total", torch.tensor(0), dist_reduce_fx="sum")

    def update(
        self,
        prediction: Tensor,
        target: Tensor,
        mask: Tensor | None = None,
        *,
        prediction_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        same_class: Classes | None = None,
    ) -> None:
        """Count the examples of one batch.

        Args:
            prediction: [batch, n, labels], logits or probabilities. An element with NaN is wrong.
            target: [batch, m, labels], one-hot.
            mask: [batch, n] bool, true where an element exists, in both sets; for sets of one size.
            prediction_mask: [batch, n] bool, where the predictions have a mask of their own. With this mask, an example
                with too many predictions is wrong; without any mask, surplus predictions are not judged.
            target_mask: [batch, m] bool, where the targets have a mask of their own.
            same_class: class numbers, [batch, n] for both sets or a pair of [batch, n] and [batch, m].
        """
        found, elements = right_elements(
            prediction,
            target,
            mask,
            prediction_mask=prediction_mask,
            target_mask=target_mask,
            same_class=same_class,
        )
        correct, total = self.counted(found, elements)
        self.correct += correct
        self.total += total

    def counted(self, found: Tensor, elements: Tensor) -> tuple[Tensor, Tensor]:
        """Numerator and denominator of the fraction, from the right and all elements of each example, `[batch]`."""
        return (found == elements).sum(), torch.tensor(len(found))

    def compute(self) -> Tensor:
        """The fraction, a scalar; NaN when nothing was counted."""
        return self.correct / self.total


class ElementAccuracy(ExactSetAccuracy):
    """Fraction of elements that are right, over all examples together.

    >>> metric = ElementAccuracy()
    >>> target = torch.nn.functional.one_hot(torch.tensor([[0, 1], [2, 2]]))
    >>> prediction = torch.tensor([[[0.1, 0.8, 0.1], [0.7, 0.2, 0.1]], [[0.0, 0.0, 1.0], [0.9, 0.0, 0.1]]])
    >>> metric(prediction, target)
    tensor(0.7500)
    """

    def counted(self, found: Tensor, elements: Tensor) -> tuple[Tensor, Tensor]:
        return found.sum(), elements.sum()


def exact_matches(*sets: Tensor, **options: Any) -> Tensor:
    """Which examples are right in every element, `[batch]` bool; arguments as in `ExactSetAccuracy.update`."""
    found, elements = right_elements(*sets, **options)
    return found == elements


def element_accuracies(*sets: Tensor, **options: Any) -> Tensor:
    """The fraction of right elements of each example, `[batch]`; 1 for an example without elements.

    Arguments are those of `ExactSetAccuracy.update`.
    """
    found, elements = right_elements(*sets, **options)
    return torch.where(elements > 0, found / elements.clamp(min=1), 1.0)


def right_elements(
    prediction: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    *,
    prediction_mask: Tensor | None = None,
    target_mask: Tensor | None = None,
    same_class: Classes | None = None,
) -> tuple[Tensor, Tensor]:
    """The number of right elements and the number of all elements of each example, `[batch]` each.

    If the predictions have a mask of their own, surplus predictions count as wrong.
    """
    for name, sets in (("prediction", prediction), ("target", target)):
        if sets.ndim != 3 or sets.shape[2] == 0:
            raise ValueError(f"{name} has shape {list(sets.shape)}: expected [batch, size, labels]")
    if len(prediction) != len(target) or prediction.shape[2] != target.shape[2]:
        raise ValueError(
            f"prediction has shape {list(prediction.shape)}, target {list(target.shape)}: make the batch and "
            "the number of labels equal"
        )
    check_device("prediction", prediction, "target", target)
    rows, columns = masks_of_both(mask, prediction_mask, target_mask, prediction, target)
    wrong = prediction.argmax(2)[:, :, None] != target.argmax(2)[:, None, :]
    wrong |= prediction.isnan().any(2)[:, :, None]
    if same_class is not None:
        of_prediction, of_target = check_classes(same_class, wrong)
        wrong |= of_prediction[:, :, None] != of_target[:, None, :]
    pairs = assign(wrong.float(), prediction_mask=rows, target_mask=columns)
    example = torch.arange(len(wrong), device=wrong.device)[:, None]
    found = (~wrong[example, pairs.prediction, pairs.target] & pairs.mask).sum(1)
    sizes = columns.sum(1)
    return found, sizes if prediction_mask is None else torch.maximum(sizes, rows.sum(1))


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

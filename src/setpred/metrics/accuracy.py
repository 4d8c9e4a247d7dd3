"""Accuracy: the fraction of examples that are right in every element, and the fraction of elements that are right."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from ..matching import Classes, assign, check_classes
from ..padding import masks_of_both
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

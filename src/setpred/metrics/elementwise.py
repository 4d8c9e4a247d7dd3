"""Element-wise accuracy: the fraction of elements that are right."""

from typing import Any

import torch
from torch import Tensor

from .exact import ExactSetAccuracy, right_elements


class ElementAccuracy(ExactSetAccuracy):
    """Fraction of all elements that are right, where `ExactSetAccuracy` wants whole examples.

    >>> metric = ElementAccuracy()
    >>> target = torch.nn.functional.one_hot(torch.tensor([[0, 1], [2, 2]]))
    >>> prediction = torch.tensor([[[0.1, 0.8, 0.1], [0.7, 0.2, 0.1]], [[0.0, 0.0, 1.0], [0.9, 0.0, 0.1]]])
    >>> metric(prediction, target)
    tensor(0.7500)
    """

    def counted(self, found: Tensor, elements: Tensor) -> tuple[Tensor, Tensor]:
        return found.sum(), elements.sum()


def element_accuracies(*sets: Tensor, **options: Any) -> Tensor:
    """The fraction of right elements of each example, `[batch]`; 1 where there are none.

    Arguments are those of `ExactSetAccuracy.update`.
    """
    found, elements = right_elements(*sets, **options)
    return torch.where(elements > 0, found / elements.clamp(min=1), 1.0)

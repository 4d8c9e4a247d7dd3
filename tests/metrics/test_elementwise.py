"""Element-wise accuracy: how many elements of a multiset are right, in any order, over any batches."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from setpred import ElementAccuracy
from setpred.metrics import element_accuracies


@given(st.data(), st.integers(1, 5))
def test_it_is_the_size_of_the_common_multiset(data, n):
    labels = st.lists(st.integers(0, 3), min_size=n, max_size=n)
    predicted, wanted = data.draw(labels), data.draw(labels)
    common = sum((Counter(predicted) & Counter(wanted)).values())
    sets = [one_hot(torch.tensor([each]), 4).float() for each in (predicted, wanted)]
    assert element_accuracies(*sets).item() == pytest.approx(common / n)


def test_every_element_counts_once_however_sets_are_batched():
    prediction, target = (one_hot(torch.randint(3, (9, 4)), 3).float() for _ in range(2))
    mask = torch.arange(4) < torch.randint(1, 5, (9, 1))
    whole, parts = ElementAccuracy(), ElementAccuracy()
    whole.update(prediction, target, prediction_mask=mask, target_mask=mask)
    for part in (slice(0, 2), slice(2, 9)):
        parts.update(prediction[part], target[part], prediction_mask=mask[part], target_mask=mask[part])
    each = element_accuracies(prediction, target, prediction_mask=mask, target_mask=mask)
    by_hand = (each * mask.sum(1)).sum() / mask.sum()
    assert whole.compute() == parts.compute() == pytest.approx(by_hand.item())


def test_an_element_too_many_is_wrong_and_a_class_must_agree():
    sets = one_hot(torch.tensor([[0, 1, 2]]), 3).float()
    two, three = torch.tensor([[True, True, False]]), torch.ones(1, 3, dtype=torch.bool)
    assert element_accuracies(sets, sets, prediction_mask=three, target_mask=two).item() == pytest.approx(2 / 3)
    classes = (torch.tensor([[0, 0, 1]]), torch.tensor([[0, 1, 1]]))
    assert element_accuracies(sets, sets, same_class=classes).item() == pytest.approx(2 / 3)

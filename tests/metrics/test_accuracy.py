"""Accuracy of sets, elements and objects: in any order, inside the class, over any batches."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from setpred.matching import hungarian_loss
from setpred.metrics import ElementAccuracy, ExactSetAccuracy, element_accuracies, score_objects
from setpred.schema import Category, Count, Real, Schema

SCHEMA = Schema({"at": Real(range=(0, 10), weight=2), "kind": Category("cat", "dog"), "legs": Count(4)}, size=4)
things = st.lists(
    st.fixed_dictionaries(
        {"at": st.sampled_from([1.0, 5.0, 9.0]), "kind": st.sampled_from(["cat", "dog"]), "legs": st.integers(0, 1)}
    ),
    max_size=4,
)


def accuracy(prediction, target, *args, **kwargs) -> float:
    metric = ExactSetAccuracy()
    metric.update(prediction, target, *args, **kwargs)
    return metric.compute().item()


@given(st.data(), st.integers(1, 4))
def test_right_exactly_when_some_order_is_right(data, n):
    labels = st.lists(st.integers(0, 2), min_size=n, max_size=n)
    predicted, wanted = data.draw(labels), data.draw(labels)
    some_order = any(list(order) == wanted for order in itertools.permutations(predicted))
    logits = 3 * one_hot(torch.tensor([predicted]), 3) + torch.rand(1, n, 3)
    assert accuracy(logits, one_hot(torch.tensor([wanted]), 3)) == some_order


@pytest.mark.parametrize("cost", ["squared", "euclidean", "cross_entropy"])
def test_agrees_with_the_match_of_the_losses(cost):
    logits = 2 * torch.randn(64, 3, 3)
    target = one_hot(torch.randint(3, (64, 3)), 3).float()
    prediction = logits if cost == "cross_entropy" else logits.softmax(-1)
    nearest = one_hot(prediction.argmax(-1), 3).float()
    exact = hungarian_loss(nearest, target, "squared") == 0
    least = hungarian_loss(prediction, target, cost)
    own_label = hungarian_loss(prediction, nearest, cost)
    assert 0 < exact.sum() < 64
    assert torch.allclose(least[exact], own_label[exact])
    assert accuracy(prediction, target) == exact.float().mean()


def test_classes_forbid_what_order_alone_would_allow():
    target = one_hot(torch.tensor([[0, 1]]), 2)
    classes = torch.tensor([[7, 8]])
    assert accuracy(target.flip(1), target) == 1
    assert accuracy(target.flip(1), target, same_class=classes) == 0
    assert accuracy(target.flip(1), target, same_class=(classes.flip(1), classes)) == 1


def test_masked_targets_are_not_asked_for():
    target = one_hot(torch.tensor([[0, 1, 1]]), 2)
    prediction = one_hot(torch.tensor([[1, 0, 0]]), 2)
    assert accuracy(prediction, target) == 0
    assert accuracy(prediction, target, target_mask=torch.tensor([[True, True, False]])) == 1


def test_too_few_or_too_many_predictions_are_wrong():
    target = one_hot(torch.tensor([[0, 1]]), 2)
    mask = torch.tensor([[True, False]])
    assert accuracy(target[:, :1], target) == 0
    assert accuracy(target, target, prediction_mask=mask) == 0
    assert accuracy(target, target, mask, prediction_mask=torch.tensor([[True, True]])) == 0
    assert accuracy(target, target, mask, prediction_mask=mask) == 1
    assert accuracy(target, target, target_mask=mask, prediction_mask=mask) == 1


def test_one_mask_is_that_of_both_sets():
    target = one_hot(torch.tensor([[0, 1, 1]]), 2)
    prediction = one_hot(torch.tensor([[1, 0, 0]]), 2)
    mask = torch.tensor([[True, True, False]])
    hidden = prediction * mask[..., None]
    assert accuracy(hidden, target, mask) == 1
    assert accuracy(prediction.flip(1) * mask[..., None], target, mask) == 0


def test_a_diverged_example_is_wrong_and_harms_no_other():
    target = one_hot(torch.tensor([[0, 1], [0, 1]]), 2)
    prediction = target.float()
    prediction[1, 0, 0] = torch.nan
    assert accuracy(prediction, target) == 0.5


def test_batches_of_any_size_add_up():
    target = one_hot(torch.randint(3, (10, 2)), 3)
    prediction = torch.randn(10, 2, 3)
    metric = ExactSetAccuracy()
    for x, y in zip(prediction.split(3), target.split(3), strict=True):
        metric.update(x, y)
    metric.update(prediction[:0], target[:0])
    assert metric.compute() == accuracy(prediction, target)
    metric.reset()
    metric.update(target, target)
    assert metric.compute() == 1


def test_nothing_counted_is_not_a_number():
    empty = torch.zeros(0, 2, 3)
    assert accuracy(empty, empty) != accuracy(empty, empty)


def test_an_empty_set_is_predicted_exactly():
    empty = torch.zeros(2, 0, 3)
    assert accuracy(empty, empty) == 1


SETS = torch.zeros(2, 3, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SETS, SETS.argmax(2)), r"target has shape \[2, 3\]: expected \[batch, size, labels\]"),
        ((SETS, SETS[:1]), "make the batch and the number of labels equal"),
        ((SETS, SETS[..., :2]), "make the batch and the number of labels equal"),
        ((SETS, SETS.to("meta")), "prediction is on cpu, target on meta"),
        ((SETS, SETS, torch.ones(2, 3)), r"mask is \[2, 3\] torch.float32: pass \[2, 3\] torch.bool"),
    ],
)
def test_wrong_input_gets_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        accuracy(*arguments)
    assert "\n" not in str(error.value)


@given(st.data(), st.integers(1, 5))
def test_element_accuracy_is_the_size_of_the_common_multiset(data, n):
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


def judged(guess, truth):
    target, mask = SCHEMA.encode_batch([truth])
    return score_objects(SCHEMA, SCHEMA.encode(guess)[None], target, mask)


@given(things, things)
def test_of_all_matchings_the_one_with_most_right_objects_then_the_best_score_counts(guess, truth):
    result = judged(guess, truth)
    most, fewest = sorted((guess, truth), key=len, reverse=True)

    def judge(one, other):
        near = 1 / (1 + ((one["at"] - other["at"]) / 0.5) ** 2)
        score = (2 * near + (one["kind"] == other["kind"]) + (one["legs"] == other["legs"])) / 4
        return np.array([one == other, score])

    ways = itertools.permutations(most, len(fewest))
    _, best = max(tuple(sum(map(judge, fewest, order), start=np.zeros(2))) for order in ways)
    assert result.score.item() == pytest.approx(best / len(most) if most else 1.0)
    same = [sorted(json.dumps(item, sort_keys=True) for item in items) for items in (guess, truth)]
    assert result.exact.item() is (same[0] == same[1])


def test_fields_tell_which_one_is_wrong():
    truth = [{"at": 1, "kind": "cat", "legs": 4}, {"at": 9, "kind": "dog", "legs": 2}]
    guess = [{"at": 9.2, "kind": "dog", "legs": 3}, {"at": 1, "kind": "cat", "legs": 4}]
    assert judged(guess, truth).fields.tolist() == [[1, 1, 0.5]]
    assert judged(guess[1:], truth).fields.tolist() == [[0.5, 0.5, 0.5]]
    assert judged(guess, []).fields.isnan().all()


def test_a_diverged_prediction_is_wrong():
    target, mask = SCHEMA.encode_batch([[{"at": 1, "kind": "cat", "legs": 4}]])
    result = score_objects(SCHEMA, torch.full_like(target, torch.nan), target, mask)
    assert not result.exact.any()
    assert result.score.item() == 0

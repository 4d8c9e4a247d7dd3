import json
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from setpred.metrics import score_objects
from setpred.schema import Category, Count, Real, Schema

SCHEMA = Schema({"at": Real(range=(0, 10), weight=2), "kind": Category("cat", "dog"), "legs": Count(4)}, size=4)
things = st.lists(
    st.fixed_dictionaries(
        {"at": st.sampled_from([1.0, 5.0, 9.0]), "kind": st.sampled_from(["cat", "dog"]), "legs": st.integers(0, 1)}
    ),
    max_size=4,
)


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

    ways = permutations(most, len(fewest))
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

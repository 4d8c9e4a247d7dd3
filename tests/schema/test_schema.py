import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from setpred.constraints import PerSlice
from setpred.schema import Angle, Category, Count, Flag, Real, Schema

CLEVR = Schema(
    {
        "3d_coords": Real(3, scale=3),
        "material": Category("rubber", "metal"),
        "color": Category("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"),
        "shape": Category("cube", "sphere", "cylinder"),
        "size": Category("small", "large"),
    },
    size=10,
)
CUBE = {"3d_coords": [-1.5, 3, 0.75], "material": "metal", "color": "red", "shape": "cube", "size": "large"}

ALL = Schema(
    {
        "at": Real(2, range=(-40, 200)),
        "weight": Real(scale=50),
        "kind": Category("cat", "dog", 7),
        "tame": Flag(),
        "legs": Count(12),
        "heading": Angle(),
    },
    size=6,
)
objects = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.lists(st.floats(-40, 200), min_size=2, max_size=2),
            "weight": st.floats(-1e3, 1e3),
            "kind": st.sampled_from(["cat", "dog", 7]),
            "tame": st.booleans(),
            "legs": st.integers(0, 12),
            "heading": st.floats(-1e4, 1e4),
        }
    ),
    max_size=6,
)


def bare(decoded):
    return [{name: value for name, value in item.items() if name != "confidence"} for item in decoded]


@given(objects)
def test_objects_survive_the_round_trip(items):
    decoded = bare(ALL.decode(ALL.encode(items)))
    assert len(decoded) == len(items)
    for got, item in zip(decoded, items, strict=True):
        assert got["at"] == pytest.approx(item["at"], abs=1e-6 * 120)
        assert got["weight"] == pytest.approx(item["weight"], rel=1e-6, abs=1e-6)
        assert {name: got[name] for name in ("kind", "tame", "legs")} == {
            name: item[name] for name in ("kind", "tame", "legs")
        }
        assert 0 <= got["heading"] < 360
        around = math.remainder(got["heading"] - item["heading"], 360)
        assert abs(around) < 1e-6 * 360


@given(st.integers(1, 1_000_000), st.data())
def test_every_count_survives_the_round_trip(largest, data):
    value = data.draw(st.integers(0, largest))
    schema = Schema({"n": Count(largest)}, size=1)
    assert bare(schema.decode(schema.encode([{"n": value}]))) == [{"n": value}]


@given(st.floats(-1e30, 1e30), st.floats(1e-3, 1e30), st.floats(0, 1))
def test_a_ranged_number_is_kept_to_a_millionth_of_its_range(low, width, fraction):
    high = low + width
    if not low < high or high / 2 - low / 2 < 1e-30:
        return
    value = min(max(low + fraction * (high - low), low), high)
    field = Real(range=(low, high))
    [got] = field.decode(torch.tensor([field.encode(value)]))
    assert low <= got <= high
    assert abs(got - value) <= 1e-6 * (high - low) + 1e-12 * abs(low)


def test_clevr_is_one_schema_of_nineteen_numbers():
    assert CLEVR.dim == 19
    assert [(s.start, s.stop) for s in CLEVR.slices.values()] == [
        (0, 3),
        (3, 5),
        (5, 13),
        (13, 16),
        (16, 18),
        (18, 19),
    ]
    elements = CLEVR.encode([{**CUBE, "rotation": 12.0, "pixel_coords": [1, 2, 3]}])
    assert elements.shape == (10, 19)
    assert elements[0].tolist() == [
        -0.5,
        1.0,
        0.25,
        *[0, 1],
        *[0, 1, 0, 0, 0, 0, 0, 0],
        *[1, 0, 0],
        *[0, 1],
        1,
    ]
    assert not elements[1:].any()
    assert bare(CLEVR.decode(elements)) == [CUBE]


def test_a_range_from_minus_three_to_three_is_clevrs_division_by_three():
    assert Real(3, range=(-3, 3)).encode([3, -1, 0]) == Real(3, scale=3).encode([3, -1, 0])


def test_batches_say_where_objects_are():
    sets, mask = CLEVR.encode_batch([[CUBE], [], [CUBE] * 10])
    assert mask.sum(1).tolist() == [1, 0, 10]
    assert torch.equal(sets[..., -1] == 1, mask)
    assert [len(items) for items in CLEVR.decode_batch(sets)] == [1, 0, 10]


def test_an_empty_batch_is_empty():
    sets, mask = CLEVR.encode_batch([])
    assert sets.shape == (0, 10, 19)
    assert mask.shape == (0, 10)


def test_the_threshold_decides_who_is_present():
    elements = CLEVR.encode([CUBE, CUBE])
    elements[0, -1], elements[1, -1] = 0.4, 0.9
    assert [len(CLEVR.decode(elements, threshold)) for threshold in (0.3, 0.5, 0.95)] == [2, 1, 0]


def test_confidences_are_probabilities_of_the_chosen_value():
    schema = Schema({"kind": Category("cat", "dog"), "tame": Flag()}, size=1)
    [item] = schema.decode(torch.tensor([[0.25, 0.75, 0.1, 1.2]]))
    assert item["kind"] == "dog"
    assert item["confidence"] == pytest.approx({"presence": 1.0, "kind": 0.75, "tame": 0.9})


@given(st.lists(st.floats(-3, 3, width=32), min_size=3, max_size=3))
def test_probabilities_stay_between_zero_and_one(numbers):
    for field in (Category("a", "b", "c"), Flag(), Count(3)):
        row = torch.tensor([numbers[: field.dim]])
        assert 0 <= field.probability(row).item() <= 1 + 1e-6


def test_without_presence_every_element_is_an_object():
    schema = Schema({"at": Real(2)}, size=3, presence=False)
    assert schema.dim == 2
    assert len(schema.decode(torch.zeros(3, 2))) == 3
    assert schema.confidence(torch.zeros(4, 3, 2)).tolist() == [[1.0] * 3] * 4


def test_a_match_needs_every_attribute_and_the_distance_in_original_units():
    near = {**CUBE, "3d_coords": [-1.5, 3, 1.15]}
    other = {**CUBE, "color": "blue"}
    elements = CLEVR.encode([CUBE, near, other])[:3]
    pairs = CLEVR.matches(elements[:, None], elements[None, :], distance=0.5)
    assert pairs.tolist() == [[True, True, False], [True, True, False], [False, False, True]]
    tight = CLEVR.matches(elements[:, None], elements[None, :], distance=0.25)
    assert torch.equal(tight, torch.eye(3, dtype=torch.bool))
    assert CLEVR.position(elements)[1].tolist() == pytest.approx(near["3d_coords"])
    assert CLEVR.attributes(elements).shape == (3, 4)


def test_the_position_can_be_another_field():
    fields = {"extent": Real(2), "centre": Real(2)}
    elements = Schema(fields, size=1).encode([{"extent": [1, 2], "centre": [3, 4]}])
    assert Schema(fields, size=1).position(elements).tolist() == [[1, 2]]
    assert Schema(fields, size=1, position="centre").position(elements).tolist() == [[3, 4]]


def test_without_attributes_or_position_everything_matches():
    schema = Schema({"heading": Angle()}, size=2)
    elements = schema.encode([{"heading": 0}, {"heading": 180}])
    assert schema.matches(elements[0], elements[1])
    assert schema.attributes(elements).shape == (2, 0)


def test_a_diverged_prediction_matches_nothing():
    target = CLEVR.encode([CUBE])[0]
    assert not CLEVR.matches(torch.full((19,), torch.nan), target)


def test_cost_is_the_papers_huber_unless_a_field_has_another_weight():
    prediction, target = torch.randn(2, 5, 1, 19), torch.randn(2, 1, 4, 19)
    difference = (prediction - target).abs()
    huber = torch.where(difference < 1, difference**2 / 2, difference - 0.5).mean(-1)
    torch.testing.assert_close(CLEVR.cost(prediction, target), huber)

    heavy = Schema({"a": Real(weight=3), "b": Real()}, size=1, presence=False)
    costs = heavy.cost(torch.eye(2), torch.zeros(2))
    assert costs[0] == 3 * costs[1]


def test_constraints_are_off_with_presence_unless_asked_for():
    assert ALL.constraint() is None
    assert isinstance(ALL.constraint(even_absent=True), PerSlice)


def test_constraints_hold_and_leave_encoded_objects_alone():
    schema = Schema(ALL.fields, size=6, presence=False)
    item = {"at": [200, -40], "weight": 900, "kind": "dog", "tame": True, "legs": 12, "heading": 77}
    encoded = schema.encode([item])[0]
    constraint = schema.constraint()
    torch.testing.assert_close(constraint(encoded), encoded)
    moved = constraint(torch.randn(50, 6, schema.dim) * 3)
    kind, heading = moved[..., schema.slices["kind"]], moved[..., schema.slices["heading"]]
    torch.testing.assert_close(kind.sum(-1), torch.ones(50, 6))
    torch.testing.assert_close(heading.norm(dim=-1), torch.ones(50, 6))
    assert moved[..., schema.slices["at"]].abs().max() <= 1


def test_nothing_to_constrain_is_none():
    assert Schema({"at": Real(2)}, size=2, presence=False).constraint() is None


fields = st.one_of(
    st.builds(Real, dim=st.integers(1, 5), scale=st.none() | st.floats(0.1, 10), weight=st.floats(0.1, 3)),
    st.builds(lambda low: Real(range=(low, low + 2)), st.floats(-5, 5)),
    st.lists(st.text() | st.integers(), min_size=1, max_size=4, unique=True).map(lambda names: Category(*names)),
    st.builds(Flag, weight=st.floats(0.1, 3)),
    st.builds(Count, max=st.integers(1, 1000)),
    st.builds(Angle, period=st.floats(0.1, 1000)),
)
names = st.text(min_size=1).filter(lambda name: name not in ("presence", "confidence"))


@given(st.dictionaries(names, fields, min_size=1, max_size=4), st.integers(1, 20), st.booleans())
def test_a_schema_survives_json(parts, size, presence):
    schema = Schema(parts, size=size, presence=presence)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_schemas_with_another_order_of_fields_differ():
    assert Schema({"a": Real(), "b": Flag()}, size=1) != Schema({"b": Flag(), "a": Real()}, size=1)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
keys = st.sampled_from(["size", "presence", "position", "fields", "type", "names", "dim", "range", "max", "scale"])
kinds = st.sampled_from(["real", "category", "flag", "count", "angle"])


@settings(max_examples=100)
@given(st.dictionaries(keys, junk | st.dictionaries(st.text(max_size=3), st.dictionaries(keys, junk | kinds))) | junk)
def test_any_plain_value_is_a_schema_or_a_one_line_error(plain):
    try:
        schema = Schema.from_dict(plain)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    else:
        assert schema.dim >= 1


@settings(max_examples=100)
@given(st.lists(st.dictionaries(st.sampled_from(list(ALL.fields)), junk), max_size=3) | junk)
def test_any_objects_are_encoded_or_get_a_one_line_error(items):
    problems = ALL.problems(items)
    if problems:
        with pytest.raises(ValueError, match="object"):
            ALL.encode(items)
        assert all(len(problem.splitlines()) == 1 for problem in problems)
    else:
        assert ALL.encode(items).isfinite().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"color": "purpel"},
            "object 0, field 'color': 'purpel' is not one of 'gray', .*: did you mean 'purple'",
        ),
        ({"color": ["red"]}, "not one of"),
        ({"color": True}, "not one of"),
        ({"3d_coords": [1, 2]}, "has 2 numbers, the schema says 3"),
        ({"3d_coords": 1}, "give a list of 3 numbers"),
        ({"3d_coords": [1, 2, math.nan]}, "nan is not finite"),
        ({"3d_coords": [1, 2, 10**400]}, "inf is not finite"),
        ({"3d_coords": [1, 2, 1e300]}, "larger scale"),
        ({"3d_coords": [1, 2, "3"]}, "'3' is not a number"),
        ({"3d_coords": [1, 2, True]}, "True is not a number"),
    ],
)
def test_a_wrong_value_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        CLEVR.encode([{**CUBE, **change}])


def test_wrong_sets_are_named():
    without = {name: value for name, value in CUBE.items() if name != "color"}
    with pytest.raises(ValueError, match="object 1 has no field 'color': is 'colour' meant"):
        CLEVR.encode([CUBE, {**without, "colour": "red"}])
    with pytest.raises(ValueError, match="has 11 objects, the schema holds 10"):
        CLEVR.encode([CUBE] * 11)
    with pytest.raises(ValueError, match="example 1, object 0 has no field"):
        CLEVR.encode_batch([[CUBE], [{}]])
    with pytest.raises(ValueError, match=r"outside the range \(-40, 200\)"):
        ALL.encode([{"at": [0, 201]}])


@pytest.mark.parametrize(
    ("field", "value"),
    [(Flag(), 2), (Flag(), "yes"), (Count(3), 4), (Count(3), 1.5), (Count(3), -1), (Angle(), None)],
)
def test_values_outside_a_field_are_refused(field, value):
    with pytest.raises(ValueError, match="is not a"):
        field.encode(value)


class Own(Flag):
    pass


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Real(0), "dim is 0"),
        (lambda: Real(range=(2, 1)), "range .* is empty"),
        (lambda: Real(range=(0, 5e-324)), "wider range"),
        (lambda: Real(range=3), "range is 3"),
        (lambda: Real(scale=-1), "scale is -1"),
        (lambda: Category(), "names has 0 values"),
        (lambda: Category("a", "a"), "names holds 'a' twice"),
        (lambda: Category(True, False), "names holds True"),
        (lambda: Count(0), "max is 0"),
        (lambda: Angle(0), "period is 0"),
        (lambda: Flag(weight=0), "weight is 0"),
        (lambda: Schema({}, size=1), "fields is empty"),
        (lambda: Schema({"presence": Flag()}, size=1), "presence"),
        (lambda: Schema({"a": Flag()}, size=0), "size is 0"),
        (lambda: Schema({"a": Real(60000)}, size=60000), "too large"),
        (lambda: Schema({"a": Flag()}, size=1, position="a"), "position 'a' is not a Real field"),
        (lambda: Schema.from_dict({"fields": {}}), "no size"),
        (lambda: Schema.from_dict({"size": 1, "fields": {}, "sise": 2}), "unknown key 'sise'"),
        (lambda: Schema.from_dict({"size": 1, "fields": {"a": {"type": "count"}}}), "a count has no max: add it"),
        (lambda: Schema.from_dict({"size": 1, "fields": {"a": {"type": "category", "names": 3}}}), "names is 3: list"),
        (lambda: Schema({"a": Own()}, size=1).to_dict(), r"fields\['a'\] is Own, a class of your own"),
        (
            lambda: Schema.from_dict({"size": 1, "fields": {"a": {"type": "reel"}}}),
            r"fields\['a'\]: type 'reel' is unknown",
        ),
        (
            lambda: Schema.from_dict({"size": 1, "fields": {"a": {"type": "real", "dim": "3"}}}),
            r"fields\['a'\]: dim is '3'",
        ),
    ],
)
def test_a_wrong_schema_names_the_key(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_tensors_are_refused():
    with pytest.raises(ValueError, match="19 numbers"):
        CLEVR.attributes(torch.zeros(10, 18))
    with pytest.raises(ValueError, match="decode_batch"):
        CLEVR.decode(torch.zeros(2, 10, 19))
    with pytest.raises(ValueError, match="element 1 is not finite"):
        CLEVR.decode(torch.tensor([[0.0] * 19, [math.nan] * 19]))


def test_arrays_and_tensors_are_values_too():
    item = {**CUBE, "3d_coords": np.array([-1.5, 3, 0.75], dtype=np.float32)}
    assert torch.equal(CLEVR.encode([item]), CLEVR.encode([CUBE]))
    assert torch.equal(CLEVR.encode([{**item, "3d_coords": torch.tensor([-1.5, 3, 0.75])}]), CLEVR.encode([CUBE]))


def test_a_field_is_right_when_equal_or_near_in_its_own_scale():
    one = {"at": [10, 10], "weight": 5.0, "kind": "cat", "tame": True, "legs": 4, "heading": 359.0}
    near = {"at": [15, 15], "weight": 9.0, "kind": "cat", "tame": True, "legs": 4, "heading": 3.0}
    far = {"at": [20, 20], "weight": 11.0, "kind": 7, "tame": False, "legs": 5, "heading": 6.0}
    target, close, wrong = (ALL.encode([item])[0] for item in (one, near, far))
    assert (ALL.closeness(target, target) == 1).all()
    assert (ALL.closeness(close, target) >= 0.5).all()
    assert (ALL.closeness(wrong, target) < 0.5).all()
    assert not ALL.closeness(torch.full_like(target, torch.nan), target).any()
    assert (ALL.closeness(target[None, None], torch.stack([close, wrong])) >= 0.5).sum(-1).tolist() == [[6, 0]]
    with pytest.raises(ValueError, match="tolerance is 0"):
        ALL.closeness(target, target, tolerance=0)


def test_field_weights_add_up_to_one():
    schema = Schema({"at": Real(3, weight=3), "kind": Category("cat", "dog")}, size=2)
    assert schema.field_weights.tolist() == [0.75, 0.25]
    assert schema.weights.tolist() == [3, 3, 3, 1, 1, 1]


def test_fields_far_from_zero_are_judged_by_their_differences():
    schema = Schema({"time": Real(range=(1.7e9, 1.7e9 + 60))}, size=2, presence=False)
    sets, _ = schema.encode_batch([[{"time": 1.7e9 + 10}, {"time": 1.7e9 + 40}]])
    early, late = sets[0]
    field = schema.fields["time"]
    assert field.closeness(early, early, 0.1) == 1
    assert field.closeness(early, late, 0.1) < 1
    assert not schema.matches(early, late, distance=29.0)
    assert schema.matches(early, late, distance=31.0)


def test_raw_outputs_become_elements_and_errors():
    schema = Schema({"at": Real(2), "kind": Category("a", "b"), "lit": Flag()}, size=3)
    raw = torch.randn(4, 7, schema.dim)
    elements = schema.activate(raw)
    assert torch.equal(elements[..., :2], raw[..., :2])
    assert torch.allclose(elements[..., 2:4].sum(-1), torch.ones(4, 7))
    assert ((elements[..., 4:] > 0) & (elements[..., 4:] < 1)).all()
    target = schema.encode_batch([[{"at": [1, 2], "kind": "b", "lit": True}]])[0][0, 0]
    sure = torch.tensor([1.0, 2.0, -30.0, 30.0, 30.0, 0.0])
    assert schema.error(sure, target) < 1e-6
    off = sure + torch.tensor([0.2, 0, 0, 0, 0, 0])
    assert torch.allclose(schema.error(off, target), torch.tensor(1.0))
    assert schema.error(raw[:, :, None], target.expand(4, 1, 5, -1)).shape == (4, 7, 5)


def test_a_threshold_that_is_no_number_is_refused():
    schema = Schema({"at": Real(2)}, size=3)
    with pytest.raises(ValueError, match="threshold is not a number"):
        schema.decode(torch.zeros(3, schema.dim), threshold=math.nan)

"""A schema is inferred from data, and what looks wrong in them is noticed."""

import random

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from own_folder import problems_of, write

from setpred.data.inspection import inspect, inspect_objects
from setpred.data.jsonl_folder import open_folder, schema_text
from setpred.data.records import DataError
from setpred.schema import Angle, Category, Count, Flag, Real, Schema


def test_a_folder_without_schema_infers_one_that_takes_all_its_data(tmp_path):
    rng = random.Random(0)
    lines = [
        {
            "vector": [i],
            "objects": [
                {
                    "at": [rng.gauss(0, 3), rng.random()],
                    "mass": rng.random() * 70,
                    "kind": rng.choice(["cat", "dog"]),
                    "class": rng.choice([3, 8]),
                    "legs": rng.choice([2, 4]),
                    "tame": rng.random() < 0.5,
                    "heading": rng.random() * 360,
                }
                for _ in range(rng.randint(1, 5))
            ],
        }
        for i in range(40)
    ]
    folder = open_folder(write(tmp_path, lines, schema=None))
    kinds = [type(field) for field in folder.schema.fields.values()]
    assert kinds == [Real, Real, Category, Category, Count, Flag, Angle]
    assert folder.schema.fields["class"].names == (3, 8)
    assert folder.schema.size == max(len(line["objects"]) for line in lines)
    assert folder.schema.presence
    low, high = folder.schema.fields["mass"].range
    assert low == 0
    assert 70 <= high <= 90


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("angle", Angle),
        ("wheel_angle", Angle),
        ("wheelAngle", Angle),
        ("angles", Angle),
        ("rectangle_width", Real),
        ("triangle_area", Real),
        ("Rectangle", Real),
        ("prototype", Count),
        ("subclass", Count),
        ("class_id", Category),
        ("classId", Category),
    ],
)
def test_only_whole_words_of_a_name_tell_what_a_field_is(name, kind):
    values = [1, 2, 7] if kind in (Category, Count) else [1.5, 20.25, 70.125]
    schema, _ = inspect_objects([[{name: value} for value in values]] * 3)
    assert type(schema.fields[name]) is kind


def test_sets_of_one_size_need_no_presence():
    assert not inspect_objects([[{"x": 1.5}, {"x": 2.5}]] * 3)[0].presence


@given(
    st.lists(
        st.lists(
            st.fixed_dictionaries(
                {
                    "x": st.floats(allow_nan=False, allow_infinity=False),
                    "p": st.lists(st.floats(-1e30, 1e30), min_size=2, max_size=2),
                    "n": st.integers(-5, 2000),
                    "kind": st.text(max_size=3),
                    "angle": st.floats(-360, 360),
                }
            ),
            max_size=4,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_an_inferred_schema_takes_the_objects_it_was_inferred_from(examples):
    if not any(examples):
        return
    schema, _ = inspect_objects(examples)
    sets, mask = schema.encode_batch(examples)
    assert sets.isfinite().all()
    assert mask.sum(1).tolist() == [len(objects) for objects in examples]
    assert Schema.from_dict(yaml.safe_load(schema_text(schema))) == schema


def note(notes, *words):
    return any(all(word in text for word in words) for text in notes)


def test_inspect_reports_what_looks_wrong(tmp_path):
    rng = random.Random(1)

    def line(i, shift, kinds):
        item = {
            "constant": 5.0,
            "one": "same",
            "rounded": float(rng.randint(0, 9)),
            "at": rng.gauss(shift, 1),
            "kind": rng.choice(kinds),
            "name": f"object {i} {rng.random()}",
            "box": [rng.random() * 1000, rng.random()],
            "extra": {"a": 1},
        }
        return {"vector": [i], "objects": [item] if i else []}

    train = [line(i, 0, ["a", "b"]) for i in range(80)]
    train[5]["objects"][0]["kind"] = "rare"
    train[6]["objects"][0]["seldom"] = 1
    train[7]["objects"][0]["at"] = "n/a"
    val = [line(i, 4, ["b", "unseen"]) for i in range(80)]
    inspection = inspect(write(tmp_path, train, val, schema=None))
    notes = inspection.notes
    assert {name: sizes.total() for name, sizes in inspection.sizes.items()} == {"train": 80, "val": 80}
    assert note(notes, "'constant' is always 5")
    assert note(notes, "'one' has the one value 'same'")
    assert note(notes, "'rounded' holds only whole numbers")
    assert note(notes, "'at' differs between train", "and val (4")
    assert note(notes, "'at' has 1 of 158 values of another type")
    assert note(notes, "'kind' has few objects", "'rare' 1")
    assert note(notes, "'kind' has values in val that train never shows ('unseen')")
    assert note(notes, "'kind' is distributed differently")
    assert note(notes, "'name' is free text")
    assert note(notes, "'extra' is not a number")
    assert note(notes, "'seldom' is in only 1 of 158 objects")
    assert note(notes, "'box' holds numbers of very different ranges")
    assert note(notes, "2 of 160 sets are empty")
    assert "name" not in inspection.schema.fields
    assert problems_of(tmp_path).problems == [
        "train.jsonl line 8: object 0, field 'at': 'n/a' is not a number: correct it"
    ]


def test_inspect_has_nothing_to_say_of_good_data(tmp_path):
    rng = random.Random(2)
    lines = [
        {
            "vector": [i],
            "objects": [
                {"at": [rng.gauss(0, 1), rng.gauss(0, 1)], "kind": rng.choice("abc"), "tame": rng.random() < 0.5}
            ]
            * rng.randint(1, 3),
        }
        for i in range(200)
    ]
    assert inspect(write(tmp_path, lines[:100], lines[100:], schema=None)).notes == []


def test_without_a_schema_every_problem_is_still_listed(tmp_path):
    lines = [{"vector": [i], "objects": [{"x": i / 7, "kind": "ab"[i % 2]}]} for i in range(9)]
    bad = ["{", {"vector": [1], "objects": [1]}, {"vector": [1], "objects": [{"x": "?", "kind": "a"}]}, {"objects": []}]
    root = write(tmp_path, [*lines, *bad], lines, schema=None)
    assert list(inspect(root).schema.fields) == ["x", "kind"]
    assert [text.split(":")[0] for text in problems_of(root).problems] == [
        f"train.jsonl line {i}" for i in range(10, 14)
    ]


def test_data_with_no_object_has_no_schema(tmp_path):
    with pytest.raises(DataError, match="every set is empty"):
        inspect(write(tmp_path, [{"vector": [1], "objects": []}], schema=None))
    with pytest.raises(DataError, match=r"train.jsonl line 1: not JSON"):
        inspect(write(tmp_path, ["{"], [{"vector": [1], "objects": []}], schema=None))


def test_inputs_that_are_in_both_splits_are_noticed(tmp_path):
    lines = [{"vector": [i], "objects": [{"x": i / 7}]} for i in range(9)]
    assert inspect(write(tmp_path, lines[:6], lines[4:], schema=None)).notes == [
        "2 inputs of val are also in train: val then judges what was learned by heart"
    ]

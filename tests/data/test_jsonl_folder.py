"""Folders of lines: examples come back as they were written, and every problem is named with its file and line."""

import math
import pickle
import random
import re
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from own_folder import CAT, DOG, SCHEMA, problems_of, write
from PIL import Image
from torch.utils.data import DataLoader

from setpred.data.inputs import Inputs
from setpred.data.jsonl_folder import open_folder, read_schema, schema_text
from setpred.data.records import DataError
from setpred.schema import Angle, Category, Count, Flag, Real, Schema


def test_vectors_and_their_sets_come_back(tmp_path):
    lines = [{"vector": [i, 0.5], "objects": [CAT, DOG][: i % 3]} for i in range(7)]
    folder = open_folder(write(tmp_path, lines))
    assert (len(folder.train), len(folder.val)) == (7, 1)
    assert folder.inputs == Inputs("vector", 2, 1)
    vector, sets, mask = folder.train[5]
    assert vector.tolist() == [5, 0.5]
    assert mask.tolist() == [True, True, False]
    assert [item["kind"] for item in folder.schema.decode(sets)] == ["cat", "dog"]
    assert folder.train[-1][0].tolist() == [6, 0.5]
    with pytest.raises(IndexError):
        folder.train[7]


def test_sets_are_padded_to_the_largest_of_both_splits(tmp_path):
    train = [{"set": [[1, 2]], "objects": []}, {"set": [], "objects": []}]
    val = [{"set": [[1, 2], [3, 4], [5, 6]], "objects": []}]
    folder = open_folder(write(tmp_path, train, val))
    assert folder.inputs == Inputs("set", 2, 3)
    assert folder.train[0][0].tolist() == [[1, 2, 1], [0, 0, 0], [0, 0, 0]]
    assert not folder.train[1][0].any()
    assert folder.val[0][0][:, -1].tolist() == [1, 1, 1]


def test_an_empty_first_set_does_not_fix_the_width(tmp_path):
    folder = open_folder(write(tmp_path, [{"set": [], "objects": []}, {"set": [[1, 2, 3]], "objects": []}]))
    assert folder.inputs == Inputs("set", 3, 1)


def test_images_are_scaled_as_a_whole_between_zero_and_one(tmp_path):
    (tmp_path / "img").mkdir()
    pixels = np.zeros((20, 40, 3), dtype=np.uint8)
    pixels[:, 20:, 0] = 255
    Image.fromarray(pixels).save(tmp_path / "img" / "1.png")
    root = write(tmp_path, [{"image": "img/1.png", "objects": [CAT]}])
    image, _, _ = open_folder(root, image_size=8).train[0]
    assert image.shape == (3, 4, 8)
    assert image.dtype == torch.float32
    assert image[0].mean() == pytest.approx(0.5, abs=0.02)
    assert image[0, :, 6:].min() == 1
    assert not image[1:].any()


def test_a_mark_of_the_encoding_does_not_matter(tmp_path):
    write(tmp_path, [{"vector": [1], "objects": []}])
    (tmp_path / "train.jsonl").write_bytes(b'\xef\xbb\xbf{"vector": [3], "objects": []}\n')
    assert open_folder(tmp_path).train[0][0].item() == 3


def test_blank_lines_and_windows_line_ends_do_not_matter(tmp_path):
    write(tmp_path, [{"vector": [1], "objects": []}])
    (tmp_path / "train.jsonl").write_bytes(b'\r\n{"vector": [1], "objects": []}\r\n\r\n{"vector": [2], "objects": []}')
    assert open_folder(tmp_path).train[1][0].item() == 2


def test_the_same_bits_for_any_number_of_workers(tmp_path):
    folder = open_folder(write(tmp_path, [{"vector": [i], "objects": [CAT]} for i in range(20)]))
    alone = [batch[0] for batch in DataLoader(folder.train, batch_size=4)]
    shared = [batch[0] for batch in DataLoader(folder.train, batch_size=4, num_workers=2)]
    assert all(torch.equal(a, b) for a, b in zip(alone, shared, strict=True))


def test_memory_does_not_hold_the_data(tmp_path):
    lines = [{"vector": [i / 7] * 100, "objects": [CAT]} for i in range(500)]
    root = write(tmp_path, lines)
    del lines
    tracemalloc.start()
    folder = open_folder(root)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(folder.train) == 500
    assert held < (root / "train.jsonl").stat().st_size / 10


GOOD = {"vector": [1, 2], "objects": [CAT]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"vector": [1', "not JSON"),
        ("[1, 2]", "not an object"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ('{"vector": [1, 2], "objects": [], "n": ' + "1" * 5000 + "}", "not JSON"),
        ({"vector": [1, 2]}, "no objects"),
        ({"vector": [1, 2], "objects": {}}, "objects is {}"),
        ({"vector": [1, 2], "objects": [3]}, "object 0 is 3"),
        ({"objects": []}, "one input is needed, found none"),
        ({"vector": [1, 2], "set": [], "objects": []}, "found vector and set"),
        ({"set": [[1, 2]], "objects": []}, "the input is 'set', others have 'vector'"),
        ({"vector": [1, 2, 3], "objects": []}, "has 3 numbers, others have 2"),
        ({"vector": [1, "2"], "objects": []}, "'2' is not a number"),
        ({"vector": 3, "objects": []}, "give a list of numbers"),
        ({"vector": [], "objects": []}, "give a list of numbers"),
        ({"vector": [1, math.nan], "objects": []}, "nan is not finite"),
        ({"vector": [1, 1e39], "objects": []}, "beyond 32 bits"),
        ({**GOOD, "objects": [{"at": [1, math.inf], "kind": "cat"}]}, "inf is not finite"),
        ({**GOOD, "objects": [{"at": [1, 2], "kind": "cow"}]}, "'cow' is not one of 'cat', 'dog'"),
        ({**GOOD, "objects": [{"at": [1, 2]}]}, "object 0 has no field 'kind'"),
        ({**GOOD, "objects": [CAT] * 4}, "has 4 objects, the schema holds 3"),
        ({**GOOD, "objects": [{"at": [1, 11], "kind": "cat"}]}, "outside the range"),
        ({**GOOD, "id": [1]}, "the id is"),
    ],
)
def test_a_bad_line_is_named_with_file_and_line(tmp_path, line, message):
    error = problems_of(write(tmp_path, [GOOD, line]))
    assert error.count == 1
    assert error.problems[0].startswith("train.jsonl line 2: ")
    assert re.search(message, error.problems[0])
    assert len(error.problems[0].splitlines()) == 1


def test_every_problem_of_both_files_is_listed_at_once(tmp_path):
    bad = {"vector": [1, 2], "objects": [{"at": [1, "x"]}, {"at": [1, 2], "kind": "cow"}]}
    error = problems_of(write(tmp_path, [GOOD, bad, "{"], [GOOD, bad]))
    assert error.count == 7
    assert [text.split(":")[0] for text in error.problems].count("train.jsonl line 2") == 3


def test_without_presence_every_set_must_be_full(tmp_path):
    full = Schema(SCHEMA.fields, size=2, presence=False)
    error = problems_of(write(tmp_path, [{**GOOD, "objects": [CAT, DOG]}, GOOD], [], schema=full))
    assert "train.jsonl line 2: has 1 objects, without presence every set has 2: set presence to true" in str(error)


def test_twenty_problems_are_shown_and_the_rest_counted(tmp_path):
    error = problems_of(write(tmp_path, [GOOD] + ["{"] * 57))
    assert (len(error.problems), error.count) == (20, 57)
    assert str(error).endswith("and 37 more")


def test_ids_are_unique_over_both_files(tmp_path):
    root = write(tmp_path, [{**GOOD, "id": "a"}, {**GOOD, "id": 1}], [{**GOOD, "id": "a"}])
    assert problems_of(root).problems == ["val.jsonl line 1: the id 'a' is also at train.jsonl line 1: rename it"]


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd", "link.png", "a/../../secret.png", "\0", "x" * 5000])
def test_images_cannot_be_outside_the_folder(tmp_path, name):
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    root = tmp_path / "data"
    root.mkdir()
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    error = problems_of(write(root, [{"image": name, "objects": []}], []))
    assert any(words in error.problems[0] for words in ("outside the data folder", "not a path", "missing", "cannot"))
    assert "train.jsonl line 1" in error.problems[0]


def test_missing_and_false_images_are_found_before_training(tmp_path):
    (tmp_path / "text.png").write_text("not an image")
    Image.new("L", (9000, 9000)).save(tmp_path / "huge.png")
    (tmp_path / "folder.png").mkdir()
    names = ["text.png", "huge.png", "folder.png", "none.png"]
    error = problems_of(write(tmp_path, [{"image": name, "objects": []} for name in names]))
    words = ["cannot be read", "9000×9000 pixels", "missing", "missing", "cannot be read"]
    assert all(word in text for word, text in zip(words, error.problems, strict=True))


def test_a_damaged_image_names_its_line_when_it_is_read(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    folder = open_folder(write(tmp_path, [{"image": "a.png", "objects": []}]))
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"train.jsonl line 1: the image 'a.png' is damaged"):
        folder.train[0]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 10**6))
def test_mutated_folders_open_or_are_refused(tmp_path, seed):
    rng = random.Random(seed)
    lines = [{"id": i, "vector": [1.5, i], "objects": [CAT, DOG][: i % 3]} for i in range(4)]
    write(tmp_path, lines)
    for name in ("train.jsonl", "schema.yaml"):
        data = bytearray((tmp_path / name).read_bytes())
        for _ in range(rng.randint(0, 3)):
            data[rng.randrange(len(data))] = rng.choice(b'{}[]",:0919eE-.\n\\ \x00\xffNantr!&*?|>%@`#')
        (tmp_path / name).write_bytes(data)
    try:
        folder = open_folder(tmp_path)
        assert all(torch.isfinite(part).all() for example in folder.train for part in example[:2])
    except DataError as error:
        assert error.count >= 1  # noqa: PT017


def test_missing_files_are_named(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        open_folder(tmp_path / "nowhere")
    error = problems_of(tmp_path)
    assert [text.split(":")[0] for text in error.problems] == ["train.jsonl", "val.jsonl"]
    (tmp_path / "train.jsonl").write_text("\n")
    assert "holds no examples" in problems_of(tmp_path).problems[0]


def test_a_file_that_changed_names_its_line(tmp_path):
    folder = open_folder(write(tmp_path, [GOOD]))
    for text in ("{\n", '{"vector": [1, 2]}\n', ""):
        (tmp_path / "train.jsonl").write_text(text)
        with pytest.raises(DataError, match=r"train\.jsonl line 1: "):
            folder.train[0]


def test_errors_can_be_pickled_and_rebuilt_from_their_text():
    error = DataError("here", ["a", "b"], 30)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.problems, again.count) == (str(error), error.problems, 30)
    assert str(DataError(str(error))) == str(error)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a: [",
            "size: 3",
            "- 1",
            "",
            "size: 2020-99-99",
            "!!int ''",
            "!!timestamp x",
            "a: &a [*a]",
            "\x00",
            "? [a]\n: b",
        ),
        "!!python/object/apply:os.system ['true']",
        "[" * 100_000,
        "a: &a [x, x]\nb: &b [*a, *a]\nsize: *b",
        "size: 1\nfields: {a: {type: real, dim: .inf}}",
    ],
)
def test_a_wrong_schema_file_gets_one_line(tmp_path, text):
    (tmp_path / "schema.yaml").write_text(text)
    with pytest.raises(DataError) as caught:
        read_schema(tmp_path / "schema.yaml")
    assert len(str(caught.value).splitlines()) == 1


def test_a_schema_survives_yaml(tmp_path):
    fields = {
        "3d": Real(3, scale=3, weight=2),
        "yes": Category("no", "1", 1, "é", ""),
        "n": Count(4),
        "a": Angle(math.tau),
        "f": Flag(),
    }
    schema = Schema(fields, size=4, presence=False)
    (tmp_path / "schema.yaml").write_text(schema_text(schema), encoding="utf-8")
    assert read_schema(tmp_path / "schema.yaml") == schema


@pytest.mark.parametrize(("pixels", "size"), [(28, 64), (96, 64), (480, 128)])
def test_images_get_a_size_that_suits_them(tmp_path, pixels, size):
    Image.new("RGB", (pixels, pixels // 2)).save(tmp_path / "a.png")
    root = write(tmp_path, [{"image": "a.png", "objects": [CAT]}])
    assert open_folder(root).inputs == Inputs("image", 3, size, size // 2)


def test_another_schema_can_be_asked_for(tmp_path):
    root = write(tmp_path, [GOOD, {**GOOD, "objects": [DOG]}])
    with pytest.raises(DataError, match="'dog' is not one of 'cat'"):
        open_folder(root, schema=Schema({"kind": Category("cat")}, size=3))
    assert open_folder(root, schema=Schema({"at": Real(2)}, size=1)).schema.dim == 3

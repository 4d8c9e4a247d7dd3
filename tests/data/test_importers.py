import csv
import json
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from setpred.data.importers import from_coco, from_csv
from setpred.data.jsonl_folder import open_folder
from setpred.data.records import DataError
from setpred.schema import Category, Count, Flag, Real


def coco(count=4, **changes):
    content = {
        "images": [{"id": i, "file_name": f"sub/{i}.png", "width": 200, "height": 100} for i in range(count)],
        "categories": [{"id": 7, "name": "cat"}, {"id": 3, "name": "dog"}],
        "annotations": [
            {"image_id": 0, "category_id": 7, "bbox": [20, 10, 40, 20]},
            {"image_id": 0, "category_id": 3, "bbox": [180, 50, 100, 100]},
            {"image_id": 1, "category_id": 3, "bbox": [0, 0, 200, 100]},
            {"image_id": 1, "category_id": 3, "bbox": [0, 0, 9, 9], "iscrowd": 1},
            {"image_id": 2, "category_id": 3, "bbox": [5, 5, 0, 9]},
        ],
    }
    return {**content, **changes}


@pytest.fixture
def source(tmp_path):
    (tmp_path / "pictures" / "sub").mkdir(parents=True)
    for i in range(4):
        Image.new("RGB", (20, 10), (i, 0, 0)).save(tmp_path / "pictures" / "sub" / f"{i}.png")
    return tmp_path


def import_coco(source, content, out="out"):
    (source / "coco.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return from_coco(source / "coco.json", source / "pictures", source / out, val=0.25)


def by_id(folder):
    return {split.record(i)["id"]: split.record(i) for split in (folder.train, folder.val) for i in range(len(split))}


def test_coco_boxes_become_pixels_of_the_image_as_its_file_has_them(source):
    imported = import_coco(source, coco())
    assert (imported.train, imported.val) == (3, 1)
    assert imported.notes == ["2 crowds and boxes without area were left out"]
    folder = open_folder(imported.folder, image_size=8)
    assert folder.schema.fields["category"] == Category("cat", "dog")
    assert folder.schema.fields["box"] == Real(4, pixels=True)
    assert folder.schema.size == 2
    records = by_id(folder)
    assert records[0]["objects"][0] == {"box": pytest.approx([4, 2, 4, 2]), "category": "cat"}
    assert records[0]["objects"][1] == {"box": pytest.approx([19, 7.5, 2, 5]), "category": "dog"}
    assert [len(records[i]["objects"]) for i in range(4)] == [2, 1, 0, 0]
    assert folder.train[0][0].shape == (3, 4, 8)


def test_the_split_does_not_depend_on_the_order_of_the_images(source):
    turned = coco()
    turned["images"].reverse()
    ids = []
    for name, content in (("a", coco()), ("b", turned)):
        folder = open_folder(import_coco(source, content, name).folder)
        ids.append({folder.val.record(i)["id"] for i in range(len(folder.val))})
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "needs the lists images, annotations, categories"),
        (coco(count=5), "image 4: the image 'sub/4.png' is missing"),
        (coco(images=[{"id": 0, "file_name": "../coco.json", "width": 1, "height": 1}]), "outside"),
        (coco(images=[{"file_name": "sub/0.png"}]), "has no id"),
        (coco(images=[{"id": 0, "file_name": "sub/0.png", "width": 0, "height": 1}]), "the width is 0"),
        (coco(categories=[{"id": 1}]), "needs an id and a name"),
        (coco(categories=[]), "a detection needs a class"),
        (coco(annotations=[]), "no image has a box"),
        (coco(annotations=[{"image_id": 9, "category_id": 3, "bbox": [0, 0, 1, 1]}]), "image_id 9 is not among"),
        (coco(annotations=[{"image_id": 0, "category_id": 1, "bbox": [0, 0, 1, 1]}]), "category_id 1 is not among"),
        (coco(annotations=[{"image_id": 0, "category_id": 3, "bbox": [0, 0, 1]}]), "give x, y, width, height"),
        (coco(annotations=[{"image_id": 0, "category_id": 3, "bbox": [0, 0, 1, float("nan")]}]), "nan is not finite"),
        (coco(annotations=[4]), "annotation 0: 4 is not an annotation"),
    ],
)
def test_wrong_coco_files_are_refused_and_leave_nothing(source, content, message):
    before = sorted(source.iterdir())
    with pytest.raises(DataError, match=message):
        import_coco(source, content)
    assert sorted(source.iterdir()) == sorted([*before, source / "coco.json"])


def test_an_existing_folder_is_never_touched(source):
    (source / "out").mkdir()
    import_coco(source, coco())
    marks = {path: path.stat().st_mtime_ns for path in (source / "out").rglob("*")}
    with pytest.raises(DataError, match="never overwritten"):
        import_coco(source, coco())
    assert marks == {path: path.stat().st_mtime_ns for path in (source / "out").rglob("*")}


def test_a_failure_while_writing_leaves_nothing(source, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(DataError, match="No space left on device"):
        import_coco(source, coco())
    assert sorted(path.name for path in source.iterdir()) == ["coco.json", "pictures"]


def table(path, text):
    (path / "table.csv").write_text(text)
    return path / "table.csv"


def test_a_table_of_objects_with_vectors_as_inputs(tmp_path):
    text = (
        "id,a,b,at.x,at.y,kind,legs,tame\n"
        'e1,1,2.5,0.5,1.5,"cat, small",4,true\n'
        "e2,3,4,0,0.25,dog,4,false\n"
        "e1,1,2.5,9,8,dog,3,true\n"
        "e3,5,6,,,,,\n"
    )
    imported = from_csv(table(tmp_path, text), tmp_path / "out", inputs=("a", "b"))
    folder = open_folder(imported.folder)
    assert [type(field) for field in folder.schema.fields.values()] == [Real, Category, Count, Flag]
    assert folder.schema.presence
    records = by_id(folder)
    assert records["e1"]["vector"] == [1, 2.5]
    assert records["e1"]["objects"] == [
        {"at": [0.5, 1.5], "kind": "cat, small", "legs": 4, "tame": True},
        {"at": [9, 8], "kind": "dog", "legs": 3, "tame": True},
    ]
    assert records["e3"]["objects"] == []


def test_codes_are_names_and_stay_apart(tmp_path):
    text = "id,v,code,kind,size\n1,1,1_1,007,1e3\n2,2,11,7,-0.5\n3,3,1_2,08,2\n"
    records = by_id(open_folder(from_csv(table(tmp_path, text), tmp_path / "out", inputs=("v",)).folder))
    found = [records[name]["objects"][0] for name in "123"]
    assert [thing["code"] for thing in found] == ["1_1", "11", "1_2"]
    assert [thing["kind"] for thing in found] == ["007", "7", "08"]
    assert [thing["size"] for thing in found] == [1000, -0.5, 2]


def test_places_of_a_table_are_pixels_of_its_images(source):
    text = "id,image,at.x,at.y\n1,sub/0.png,12,3\n2,sub/1.png,19.5,9\n2,sub/1.png,0,1\n"
    folder = open_folder(from_csv(table(source / "pictures", text), source / "out").folder)
    assert folder.schema.fields["at"] == Real(2, pixels=True)


def test_a_table_beside_its_images(source):
    text = "id,image,kind\n1,sub/0.png,cat\n2,sub/1.png,dog\n2,sub/1.png,cat\n"
    folder = open_folder(from_csv(table(source / "pictures", text), source / "out").folder, image_size=4)
    assert folder.inputs.kind == "image"
    assert len(folder.train) == len(folder.val) == 1


def test_without_inputs_a_table_is_sets_to_autoencode(tmp_path):
    text = "cloud,x,y\n" + "".join(f"{i % 4},{i}.5,{-i}\n" for i in range(10))
    folder = open_folder(from_csv(table(tmp_path, text), tmp_path / "out", id="cloud", inputs=()).folder)
    given, sets, mask = folder.train[0]
    assert folder.inputs.kind == "set"
    assert (given[:, -1] == 1).sum() == mask.sum()
    assert given[:, :2].tolist() == sets[:, :2].tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the header|no rows|no column"),
        ("id,v,x\n", "holds no rows"),
        ("id,x\n1,2\n", "no column 'v'"),
        ("id,v,x,x\n1,1,2,3\n", "equal names"),
        ("id,v\n1,2\n2,3\n", "no columns beside"),
        ("id,v,x,x.a\n1,2,3,4\n", "rename one"),
        ("id,v,x\n1,1,2,3\n2,1,1\n", r"table\.csv line 2: has 4 cells"),
        ("id,v,x,y\n1,1,2,\n2,1,1,1\n", "'y' is empty"),
        ("id,v,x\n,1,2\n2,1,1\n", "'id' is empty"),
        ("id,v,x\n1,a,2\n2,1,1\n", "the input 'v' is 'a'"),
        ("id,v,x\n1,1,2\n1,2,1\n2,1,1\n", "the input of '1' differs"),
        ("id,v,x\n1,1,nan\n2,1,1\n", "nan is not finite"),
        ("id,v,x\n1,1,2\n", "two are needed"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        from_csv(table(tmp_path, text), tmp_path / "out", inputs=("v",))
    assert not (tmp_path / "out").exists()


def test_other_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        from_csv(tmp_path / "none.csv", tmp_path / "out")
    with pytest.raises(DataError, match="cannot be read"):
        from_coco(tmp_path / "none.json", tmp_path, tmp_path / "out")
    (tmp_path / "latin.csv").write_bytes(b"id,x\n1,\xff\n")
    with pytest.raises(DataError, match="UTF-8"):
        from_csv(tmp_path / "latin.csv", tmp_path / "out", inputs=())


def test_a_share_outside_zero_and_one_is_refused(tmp_path):
    with pytest.raises(ValueError, match="val is 1"):
        from_csv(table(tmp_path, "id,x\n1,1\n2,2\n"), tmp_path / "out", inputs=(), val=1)


cells = st.text(alphabet='ab10.-,e"\n x', max_size=4)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.lists(cells, min_size=3, max_size=3), max_size=6))
def test_any_table_is_imported_or_refused(tmp_path, rows):
    with (tmp_path / "any.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "x", "y"], *rows])
    with tempfile.TemporaryDirectory() as place:
        try:
            imported = from_csv(tmp_path / "any.csv", Path(place, "out"), inputs=())
        except DataError:
            assert not list(Path(place).iterdir())
        else:
            folder = open_folder(imported.folder)
            assert len(folder.train) + len(folder.val) == len({row[0].strip() for row in rows})


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 10**6))
def test_mutated_coco_files_are_imported_or_refused(source, seed):
    rng = random.Random(seed)
    text = list(json.dumps(coco()))
    for _ in range(rng.randint(1, 4)):
        text[rng.randrange(len(text))] = rng.choice('{}[]",:019e-.aN\\ ')
    with tempfile.TemporaryDirectory() as place:
        try:
            imported = import_coco(source, "".join(text), Path(place, "out"))
        except DataError:
            assert not list(Path(place).iterdir())
        else:
            open_folder(imported.folder)

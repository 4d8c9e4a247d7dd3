"""From a folder of one's own data to predictions, by the commands that a person types."""

import io
import json
import random
import shutil
import sys

import pytest
import torch
from PIL import Image

from setpred import GradientDescent, SetPredictor
from setpred.prediction import load_model
from setpred.training.run_folder import load_run

TINY = [
    "optim.steps=6",
    "trainer.round=3",
    "net.hidden=16",
    "net.latent=16",
    "net.width=4",
    "solver.steps=4",
    "trainer.logger=none",
]
SHORT = [word for word in TINY if word.startswith(("optim", "trainer", "net.width"))]
"""For a model without a decoder."""
KINDS = ("vector", "set", "image")


def example(kind, i, root):
    """A few points in the plane, seen as a vector, as a set in other units, or as a picture."""
    rng = random.Random(i)
    points = [[rng.uniform(-50, 50), rng.uniform(0, 200)] for _ in range(1 + i % 3)]
    objects = [{"at": point, "side": "left" if point[0] < 0 else "right"} for point in points]
    if kind == "vector":
        given = [sum(column) for column in zip(*points, strict=True)] + [len(points)]
    elif kind == "set":
        given = [[1000 + y, x] for x, y in points]
    else:
        image = Image.new("RGB", (40, 30))
        for x, y in points:
            image.putpixel((int((x + 50) * 0.39), int(y * 0.14)), (255, 255, 255))
        image.save(root / f"{i}.png")
        given = f"{i}.png"
    return {"id": i, kind: given, "objects": objects}


def write(root, kind, train=40, val=8):
    root.mkdir()
    lines = [json.dumps(example(kind, i, root)) for i in range(train + val)]
    (root / "train.jsonl").write_text("\n".join(lines[:train]))
    (root / "val.jsonl").write_text("\n".join(lines[train:]))
    return root


def give(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


RIVALS = ("mlp", "queries", "slots", "slots-unrolled")


@pytest.mark.parametrize(
    ("kind", "model"),
    [*((kind, "idspn") for kind in KINDS), ("image", "reader"), *((kind, name) for kind in KINDS for name in RIVALS)],
)
def test_inspect_train_predict(setpred, tmp_path, kind, model):
    root = write(tmp_path / "mine", kind)
    code, out, err = setpred("data", "inspect", "mine", "--write")
    assert code == 0
    assert "at:\n    type: real\n    dim: 2" in out
    assert (root / "schema.yaml").read_text() == out
    assert "train: 40 examples, 1 to 3 objects each" in err
    assert (tmp_path / "examples.png").stat().st_size > 10_000

    small = TINY if model == "idspn" else SHORT
    code, out, err = setpred("train", "mine", "--model", model, "--preset", "quick", "--out", "run", *small)
    assert (code, "40 examples to train on, 8 to judge" in out) == (0, True), err
    metrics = json.loads((tmp_path / "run" / "result.json").read_text())["metrics"]
    assert {"loss", "accuracy", "score", "at right", "side right", "ap_inf"} <= set(metrics)
    if model == "idspn":
        assert setpred("evaluate", "run", "steps=2", "--json")[0] == 0
        code, out, _ = setpred("check", "run")
        assert (code, "multiset-equivariant" in out) == (0, True)
    else:
        assert setpred("evaluate", "run", "--json")[0] == 0
        code, out, err = setpred("check", "run")
        if model.startswith("slots"):
            assert (code, "set-equivariant" in out) == (0, True)
        else:
            assert (code, "there is nothing to permute" in err) == (2, True)

    lines = (root / "val.jsonl").read_text()
    if kind != "image":
        (tmp_path / "new.jsonl").write_text(lines)
        shutil.rmtree(root)
        given = "new.jsonl"
    else:
        (root / "train.jsonl").unlink()
        given = "mine/val.jsonl"
    code, out, err = setpred("predict", "run", given, "--threshold", "-9")
    assert code == 0, err
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["id"] for answer in answers] == list(range(40, 48))
    assert all(len(answer["objects"]) == 3 for answer in answers)
    for thing in answers[0]["objects"]:
        assert set(thing) == {"at", "side", "confidence"}
        assert thing["side"] in ("left", "right")
        assert -80 <= thing["at"][0] <= 230
        assert 0 <= thing["confidence"]["presence"] <= 1
    if kind != "image":
        code, _, err = setpred("evaluate", "run")
        assert code == 2
        assert "no such folder" in err


def test_a_report_shows_examples_beside_their_predictions(setpred, runs, tmp_path):
    code, _, err = setpred("report", str(runs / "image-run"))
    assert code == 0, err
    page = (tmp_path / "report.html").read_text()
    assert "image, image inputs, 40 to train on: the first examples of val.jsonl" in page
    assert "not shown in pictures" not in page


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A trained run on vectors and one on images, with their data."""
    from setpred.tasks import make_settings
    from setpred.tasks.settings import parse_overrides
    from setpred.training.run import train

    root = tmp_path_factory.mktemp("runs")
    for kind in ("vector", "image"):
        data = write(root / kind, kind)
        changes = parse_overrides(TINY if kind == "vector" else SHORT)
        train(make_settings(str(data), preset="quick", overrides=changes), root / f"{kind}-run", quiet=True)
    return root


def test_images_are_predicted_from_files_folders_and_lines_alike(setpred, runs, tmp_path):
    run, data = str(runs / "image-run"), runs / "image"
    code, out, _ = setpred("predict", run, str(data), "--threshold", "-9")
    answers = {json.loads(line)["image"]: json.loads(line)["objects"] for line in out.splitlines()}
    assert code == 0
    assert len(answers) == 48
    code, out, _ = setpred("predict", run, str(data / "41.png"), str(data / "val.jsonl"), "--threshold", "-9")
    file, *lines = (json.loads(line) for line in out.splitlines())
    assert code == 0
    for answer, name in ((file, "41.png"), (lines[1], "41.png"), (lines[3], "43.png")):
        wanted = answers[str(data / name)]
        for ours, theirs in zip(answer["objects"], wanted, strict=True):
            assert ours["at"] == pytest.approx(theirs["at"], rel=1e-3, abs=1e-2)


def test_a_saved_model_predicts_as_its_run_does(setpred, runs, tmp_path):
    load_run(runs / "vector-run")[1].predictor.save_pretrained(tmp_path / "saved")
    assert isinstance(SetPredictor.from_pretrained(tmp_path / "saved"), SetPredictor)
    given = str(runs / "vector" / "val.jsonl")
    assert setpred("predict", "saved", given)[:2] == setpred("predict", str(runs / "vector-run"), given)[:2]


def test_a_thousand_lines_of_standard_input_are_answered_in_order_with_a_bar(setpred, runs, monkeypatch):
    lines = [json.dumps({"id": i, "vector": [i % 7, i % 5, 2]}) for i in range(1000)]
    give(monkeypatch, "\n".join(lines))
    code, out, err = setpred("predict", str(runs / "vector-run"), "-", "--threshold", "-9")
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [answer["id"] for answer in answers] == list(range(1000))
    assert "1000/" in err
    # An answer depends on its input alone: 35 numbers later the inputs repeat, in another place of another batch.
    for first, later in zip(answers[:35], answers[700:735], strict=True):
        for one, other in zip(first["objects"], later["objects"], strict=True):
            assert one["at"] == pytest.approx(other["at"], rel=1e-3, abs=1e-2)


def test_lines_whose_inner_optimisation_diverged_say_so(setpred, runs, tmp_path):
    model = load_model(str(runs / "vector-run"))
    model.predictor.decoder.solver = GradientDescent(steps=40, lr=1e12)
    model.predictor.save_pretrained(tmp_path / "absurd")
    code, out, err = setpred("predict", str(tmp_path / "absurd"), str(runs / "vector" / "val.jsonl"))
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert all(answer["diverged"] is True for answer in answers)
    assert f"warning: the inner optimisation diverged for {len(answers)} of {len(answers)} inputs" in err
    _, out, err = setpred("predict", str(runs / "vector-run"), str(runs / "vector" / "val.jsonl"))
    assert "diverged" not in out + err


def test_steps_and_threshold_are_those_asked_for(setpred, runs):
    model = load_model(str(runs / "vector-run"))
    given = runs / "vector" / "val.jsonl"
    contents = [json.loads(line) for line in given.read_text().splitlines()]
    inputs = torch.stack([model.inputs.read(content) for content in contents])
    _, out, _ = setpred("predict", str(runs / "vector-run"), str(given), "--steps", "9", "--threshold", "0.1")
    for answer, wanted in zip(out.splitlines(), model.predictor.predict(inputs, 9, 0.1), strict=True):
        things = json.loads(answer)["objects"]
        assert len(things) == len(wanted)
        for ours, theirs in zip(things, wanted, strict=True):
            assert ours["at"] == pytest.approx(theirs["at"], rel=1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"vector": [1, 2, 3]}\n{"vector": [1, 2]}', "standard input line 2: the vector has 2 numbers"),
        ('{"set": [[1]]}', "standard input line 1: the input is 'set'"),
        ('\n\n{"vector": [1, 2,', "standard input line 3: not JSON"),
        ('{"vector": [1, 2, NaN]}', "standard input line 1: the vector holds a wrong number: nan is not finite"),
        ('{"vector": [1, 2, 3], "id": NaN}', "standard input line 1: id is nan, which JSON cannot repeat"),
        ('{"vector": [1, 2, 3], "id": "\\ud800"}', "standard input line 1: half a character (\\ud800) cannot be kept"),
        (
            299 * '{"vector": [1, 2, 3]}\n' + '{"vector": [3e38, 3e38, -3e38]}',
            "standard input line 300: the model predicts NaN",
        ),
    ],
)
def test_a_bad_line_is_named(setpred, runs, monkeypatch, text, message):
    give(monkeypatch, text)
    code, _, err = setpred("predict", str(runs / "vector-run"), "-")
    assert code == 2
    assert message in err


def test_wrong_inputs_and_models_are_named(setpred, runs, tmp_path):
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "empty").mkdir()
    vector, image = str(runs / "vector-run"), str(runs / "image-run")
    for words, message in [
        ((image, "text.png"), "text.png: the image 'text.png' cannot be read"),
        ((image, "nowhere.png"), "there is no input nowhere.png"),
        ((image, "empty"), "empty holds no images"),
        ((vector, "text.png"), "text.png is no file of JSON lines: the model takes a vector"),
        (("empty", "-"), "empty holds no config.json"),
        (("nowhere", "-"), "there is no folder nowhere"),
    ]:
        code, _, err = setpred("predict", *words)
        assert code == 2
        assert message in err
        assert err.count("\n") == 1


def test_of_a_finished_run_whose_weights_are_gone_nobody_is_sent_to_resume(setpred, runs, tmp_path):
    run = shutil.copytree(runs / "vector-run", tmp_path / "run")
    (run / "model.safetensors").unlink()
    for words in (("predict", "run", "-"), ("evaluate", "run")):
        code, _, err = setpred(*words)
        assert code == 2
        assert "model.safetensors" in err
        assert "--resume" not in err


def test_every_problem_of_the_data_is_listed_and_nothing_is_trained(setpred, tmp_path):
    root = write(tmp_path / "mine", "image")
    assert setpred("data", "inspect", "mine", "--write")[0] == 0
    good = (root / "train.jsonl").read_text().splitlines()
    bad = [
        '{"image": "0.png", "objects": [',
        '{"image": "none.png", "objects": []}',
        '{"image": "0.png", "objects": [{"at": [0, 0], "side": "up"}]}',
        '{"image": "0.png", "objects": [{"at": [0, 0]}]}',
        json.dumps({"image": "0.png", "objects": json.loads(good[2])["objects"] * 2}),
        '{"vector": [1], "objects": []}',
        '{"id": 3, "image": "0.png", "objects": []}',
        '{"image": "0.png", "objects": [{"at": [0, Infinity], "side": "left"}]}',
    ]
    (root / "train.jsonl").write_text("\n".join(good + bad))
    words = [
        "not JSON",
        "the image 'mine/none.png' is missing",
        "'up' is not one of 'left', 'right'",
        "has no field 'side'",
        "has 6 objects, the schema holds 3",
        "the input is 'vector', others have 'image'",
        "the id 3 is also at train.jsonl line 4",
        "inf is not finite",
    ]
    for command in (["train", "mine"], ["data", "inspect", "mine"]):
        code, _, err = setpred(*command)
        assert code == 2
        listed = [line for line in err.splitlines() if line.startswith("  train.jsonl line ")]
        assert len(listed) == len(bad)
        for number, (line, word) in enumerate(zip(listed, words, strict=True), start=41):
            assert line.startswith(f"  train.jsonl line {number}: ")
            assert word in line
    assert not (tmp_path / "runs").exists()
    (root / "train.jsonl").write_text("\n".join(good + ["{"] * 30))
    code, _, err = setpred("train", "mine")
    assert "30 problems" in err
    assert err.count("not JSON") == 20
    assert "and 10 more" in err


def test_damaged_images_are_all_listed_before_training(setpred, tmp_path):
    root = write(tmp_path / "mine", "image")
    for name in ("3.png", "7.png"):
        Image.effect_noise((64, 64), 90).save(root / name)
        (root / name).write_bytes((root / name).read_bytes()[:700])
    code, _, err = setpred("train", "mine", *SHORT)
    assert code == 2
    assert "2 problems" in err
    assert "train.jsonl line 4: the image '3.png' is damaged" in err
    assert not (tmp_path / "runs").exists()


def test_a_run_on_a_folder_goes_on_with_resume(setpred, tmp_path):
    write(tmp_path / "mine", "vector")
    words = ["train", "mine", *TINY]
    assert setpred(*words)[0] == 0
    run = tmp_path / "runs" / "mine-idspn-small-seed0"
    weights = (run / "model.safetensors").read_bytes()
    for name in ("result.json", "model.safetensors"):
        (run / name).unlink()
    assert setpred(*words, "--resume")[0] == 0
    assert (run / "model.safetensors").read_bytes() == weights
    code, _, err = setpred(*words)
    assert (code, "is not empty" in err) == (2, True)
    (tmp_path / "runs").mkdir(exist_ok=True)
    write(tmp_path / "other", "vector")
    code, _, err = setpred("train", "other", "--out", str(run), "--resume")
    assert (code, "was started with data.folder=" in err) == (2, True)


def test_mistakes_in_a_request_are_one_line(setpred, tmp_path):
    write(tmp_path / "mine", "vector")
    for words, message in [
        (["train", "folder"], "folder is no task by itself"),
        (["train", "nothing"], "unknown task 'nothing'"),
        (["train", "mine", "--preset", "paper"], "unknown preset 'paper': there are small, quick"),
        (["train", "mine", "--model", "bilstm"], "model 'bilstm'"),
        (["train", "mine", "data.train=41"], "train.jsonl holds 40 examples, data.train=41 are requested"),
        (["train", "mine", "net.constraint=simplex"], "unknown net.constraint 'simplex'"),
        (["train", "mine", "data.tolerance=0"], "data.tolerance is 0"),
        (["data", "inspect", "nowhere"], "there is no folder nowhere"),
    ]:
        code, _, err = setpred(*words)
        assert code == 2
        assert message in err
        assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_imports_are_ready_to_train_on(setpred, tmp_path):
    rows = [f"{i},{i % 5},{x:.1f},{'cat' if x > 1 else 'dog'}" for i in range(12) for x in (0.5 * i, 3.0)]
    (tmp_path / "table.csv").write_text("\n".join(["case,number,x,kind", *rows]))
    words = ["table.csv", "--out", "csv", "--id", "case", "--inputs", "number", "--val", "0.25"]
    code, out, _ = setpred("data", "import", "csv", *words)
    assert (code, out) == (0, "csv: 9 examples to train on, 3 to validate\n")
    assert setpred("train", "csv", *TINY)[0] == 0

    images = [{"id": i, "file_name": f"{i}.png", "width": 40, "height": 30} for i in range(6)]
    boxes = [{"image_id": i, "category_id": 1, "bbox": [4, 3, 10 + i, 6]} for i in range(6)]
    content = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "dot"}]}
    (tmp_path / "coco.json").write_text(json.dumps(content))
    (tmp_path / "pictures").mkdir()
    for i in range(6):
        Image.new("RGB", (40, 30)).save(tmp_path / "pictures" / f"{i}.png")
    code, out, _ = setpred("data", "import", "coco", "coco.json", "pictures", "--out", "coco")
    assert (code, out) == (0, "coco: 5 examples to train on, 1 to validate\n")
    assert setpred("data", "inspect", "coco")[0] == 0
    assert setpred("train", "coco", "--preset", "quick", *SHORT)[0] == 0
    code, _, err = setpred("data", "import", "coco", "coco.json", "pictures", "--out", "coco")
    assert (code, "is never overwritten" in err) == (2, True)


def test_an_image_of_a_scene_is_predicted_by_a_run_of_clevr(setpred, tmp_path, monkeypatch):
    monkeypatch.setenv("SETPRED_CACHE", str(tmp_path / "cache"))
    tiny = [*TINY, "data.train=8", "data.test=4", "optim.iterations=none", "optim.batch=8"]
    assert setpred("train", "clevr", "--preset", "quick", "--out", "run", *tiny)[0] == 0
    assert setpred("data", "scenes", "--out", "scenes", "--count", "1", "--size", "64")[0] == 0
    image = "scenes/images/train/CLEVR_train_000000.png"
    code, out, _ = setpred("predict", "run", image, "--threshold", "-9")
    assert code == 0
    answer = json.loads(out)
    assert answer["image"] == image
    assert set(answer["objects"][0]) == {"3d_coords", "material", "color", "shape", "size", "confidence"}
    assert len(answer["objects"]) == 10

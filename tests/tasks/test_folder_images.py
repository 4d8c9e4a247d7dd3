"""Folders of images: read by places, of any size, answered in the pixels of each file."""

import json
import random

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from safetensors.torch import save_file

from setpred import ImageEncoder, ImageReader, SetPredictor
from setpred.errors import UsageError
from setpred.schema import Category, Real, Schema
from setpred.tasks import make_experiment, make_settings
from setpred.tasks.folder import make_predictor
from setpred.tasks.folder_settings import read_schema
from setpred.training.run import train
from setpred.training.run_folder import load_run

SIZES = [(40, 24), (120, 72), (30, 40)]
LEARNS = {
    "data.size": 32,
    "net.width": 8,
    "optim.steps": 240,
    "optim.batch": 16,
    "trainer.round": 120,
    "trainer.logger": None,
}
TINY = LEARNS | {"optim.steps": 4, "trainer.round": 2}


def draw(rng, size):
    """Up to two squares, red or blue, in an image of this size."""
    picture, objects = Image.new("RGB", size, "white"), []
    half = max(size) / 10
    for _ in range(rng.randint(0, 2)):
        x, y = (rng.uniform(half, side - half) for side in size)
        colour = rng.choice(["red", "blue"])
        ImageDraw.Draw(picture).rectangle([x - half, y - half, x + half, y + half], fill=colour)
        objects.append({"at": [x, y], "colour": colour})
    return picture, objects


@pytest.fixture(scope="module")
def squares(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("own") / "squares", random.Random(0)
    root.mkdir()
    for split, count in (("train", 160), ("val", 24)):
        with (root / f"{split}.jsonl").open("w") as file:
            for i in range(count):
                picture, objects = draw(rng, SIZES[i % len(SIZES)])
                picture.save(root / f"{split}-{i}.png")
                file.write(json.dumps({"image": f"{split}-{i}.png", "objects": objects}) + "\n")
    return root


@pytest.fixture(scope="module")
def run(squares):
    train(make_settings(str(squares), preset="quick", overrides=LEARNS), squares.parent / "run", quiet=True)
    return squares.parent / "run"


def test_images_are_read_by_places_unless_another_model_is_named(squares, tmp_path):
    settings = make_settings(str(squares), overrides=TINY)
    assert (settings.model, settings.data.width, settings.data.height) == ("reader", 32, 32)
    assert isinstance(make_experiment(settings).predictor.encoder, ImageReader)
    published = make_settings(str(squares), "idspn", "quick")
    assert isinstance(make_experiment(published).predictor.encoder, ImageEncoder)
    (tmp_path / "train.jsonl").write_text('{"vector": [1], "objects": [{"x": 0.5}]}')
    (tmp_path / "val.jsonl").write_text('{"vector": [2], "objects": [{"x": 1.5}]}')
    assert make_settings(str(tmp_path)).model == "idspn"
    with pytest.raises(UsageError, match="reader reads images, the inputs are vectors"):
        make_experiment(make_settings(str(tmp_path), "reader"))


def test_the_best_preset_is_the_default(squares):
    usual, best = (make_settings(str(squares), preset=preset) for preset in ("small", "best"))
    best.preset = usual.preset
    assert usual == best


def test_places_are_learned_and_answered_in_the_pixels_of_each_file(setpred, run, squares, tmp_path):
    rng, right, wanted = random.Random(7), 0, 0
    for i, size in enumerate([*SIZES * 6, (300, 100)]):
        picture, objects = draw(rng, size)
        picture.save(tmp_path / f"{i:02}.png")
        (tmp_path / f"{i:02}.json").write_text(json.dumps({"size": size, "objects": objects}))
    code, out, err = setpred("predict", str(run), str(tmp_path))
    assert code == 0, err
    for line in out.splitlines():
        answer = json.loads(line)
        truth = json.loads((tmp_path / answer["image"]).with_suffix(".json").read_text())
        for thing in truth["objects"]:
            near = [
                found
                for found in answer["objects"]
                if found["colour"] == thing["colour"]
                and np.hypot(*np.subtract(found["at"], thing["at"])) < 0.1 * max(truth["size"])
            ]
            right, wanted = right + bool(near), wanted + 1
    assert right > 0.6 * wanted


def test_an_image_too_small_or_damaged_is_one_line(setpred, run, tmp_path):
    Image.new("L", (1, 1)).save(tmp_path / "one.png")
    code, _, err = setpred("predict", str(run), "one.png")
    assert code == 0, err
    (tmp_path / "bad.png").write_bytes((tmp_path / "one.png").read_bytes()[:40])
    code, out, err = setpred("predict", str(run), "bad.png")
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_reader_is_drawn_in_a_report_and_in_the_playground(setpred, run, squares, tmp_path):
    code, _, err = setpred("report", str(run))
    assert code == 0, err
    assert "the first examples of val.jsonl" in (tmp_path / "report.html").read_text()
    _, experiment = load_run(run)
    batch = tuple(part[:1] for part in experiment.split("test"))
    state = make_view().state(experiment, batch, 0, 5)
    assert state["size"] == SIZES[0]
    assert len(state["iterates"]) == 1
    truth = json.loads((squares / "val.jsonl").read_text().splitlines()[0])["objects"]
    shown = [thing["at"] for thing, there in zip(state["truth"], state["there"], strict=True) if there]
    assert shown == [pytest.approx(thing["at"], rel=1e-4) for thing in truth]
    assert state["places"][0] == [pytest.approx(thing["at"], abs=0.01) for thing in state["iterates"][0]]


def make_view():
    from setpred.views.objects import ObjectsView

    return ObjectsView()


def test_a_saved_reader_knows_its_canvas(setpred, run, squares, tmp_path):
    load_run(run)[1].predictor.save_pretrained(tmp_path / "saved")
    image = str(squares / "val-2.png")
    assert setpred("predict", "saved", image)[:2] == setpred("predict", str(run), image)[:2]


def test_a_reader_runs_in_onnx_for_any_batch(setpred, run, squares, tmp_path):
    import onnxruntime

    code, out, err = setpred("export", str(run), "--out", str(tmp_path / "reader.onnx"))
    assert (code, out.split()) == (0, [str(tmp_path / "reader.onnx")]), err
    session = onnxruntime.InferenceSession(tmp_path / "reader.onnx")
    assert [value.name for value in session.get_inputs()] == ["input"]
    _, experiment = load_run(run)
    images = experiment.split("test")[0].float() / 255
    with torch.no_grad():
        wanted = experiment.predictor(images)
    for batch in (1, 5):
        (sets,) = session.run(["sets"], {"input": images[:batch].numpy()})
        assert torch.allclose(torch.from_numpy(sets), wanted[:batch], atol=1e-4)


def test_the_example_answers_in_pixels_without_this_package(setpred, run, squares, tmp_path):
    import subprocess
    import sys
    from pathlib import Path

    assert setpred("export", str(run), "--out", str(tmp_path / "reader.onnx"))[0] == 0
    _, out, _ = setpred("predict", str(run), str(squares / "val-1.png"))
    example = Path(__file__).parents[2] / "examples" / "run_onnx.py"
    command = [sys.executable, example, tmp_path / "reader.onnx", squares / "val-1.png"]
    objects = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    for found, wanted in zip(objects, json.loads(out)["objects"], strict=True):
        assert found["colour"] == wanted["colour"]
        assert found["at"] == pytest.approx(wanted["at"], rel=1e-3)


def test_fields_without_a_place_are_read_too(tmp_path):
    for i in range(8):
        Image.new("RGB", (20, 30), "red" if i % 2 else "blue").save(tmp_path / f"{i}.png")
    lines = [json.dumps({"image": f"{i}.png", "objects": [{"kind": "cat"}] * (1 + i % 2)}) for i in range(8)]
    for split in ("train", "val"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    result = train(make_settings(str(tmp_path), overrides=TINY), tmp_path / "run", quiet=True)
    assert result["metrics"]["score"] >= 0


def test_a_run_of_an_older_version_still_stretches_its_images(squares):
    settings = make_settings(str(squares), "idspn", "quick", overrides={"net.width": 4})
    settings.data.width = settings.data.height = None
    settings.data.size = 64
    fields = {"at": Real(2, range=(0, 120)), "colour": Category("blue", "red")}
    settings.data.schema = json.dumps(Schema(fields, size=2).to_dict())
    experiment = make_experiment(settings)
    assert experiment.predictor.encoder.size == 64
    assert experiment.split("test")[0].shape[1:] == (3, 64, 64)


class TestPublicWeights:
    """`net.weights` from files as torchvision writes them."""

    @pytest.fixture(scope="class")
    def weights(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("weights")
        state = ImageEncoder(latent=8, size=64).resnet.state_dict() | {"fc.weight": torch.zeros(10, 512)}
        save_file(state, folder / "resnet18.safetensors")
        torch.save(state, folder / "resnet18.pth")
        torch.save({"other": torch.zeros(1)}, folder / "other.pth")
        torch.save({"model": state}, folder / "nested.pth")
        (folder / "text.pth").write_text("no weights")
        weight, counted = state["conv1.weight"], "bn1.num_batches_tracked"
        for name, wrong in {
            "nan": {"conv1.weight": weight.clone().fill_(torch.nan)},
            "infinite": {"bn1.running_var": torch.full((64,), torch.inf)},
            "large": {"conv1.weight": weight.double() * 1e300},
            "complex": {"conv1.weight": weight.to(torch.complex64)},
            "eighth": {"conv1.weight": weight.to(torch.float8_e4m3fn)},
            "whole": {"conv1.weight": weight.to(torch.int64)},
            "sparse": {"conv1.weight": weight.to_sparse()},
            "nowhere": {"conv1.weight": weight.to("meta")},
            "counted": {counted: torch.tensor(1j)},
            "unnamed": {1: weight},
        }.items():
            torch.save(state | wrong, folder / f"{name}.pth")
        return folder

    @pytest.mark.parametrize(
        ("model", "name"), [("idspn", "resnet18.safetensors"), ("idspn", "resnet18.pth"), ("reader", "resnet18.pth")]
    )
    def test_training_begins_with_them(self, squares, weights, tmp_path, model, name):
        tiny = {"optim.steps": 1, "optim.lr": 0.0, "trainer.round": 1, "net.hidden": 16, "net.latent": 16}
        changes = tiny | {"net.width": 64, "net.weights": str(weights / name), "trainer.logger": None, "data.train": 8}
        train(make_settings(str(squares), model, "quick", overrides=changes), tmp_path / "run", quiet=True)
        (weights / name).rename(weights / "away")  # a trained run does not need the file
        try:
            encoder = load_run(tmp_path / "run")[1].predictor.encoder
        finally:
            (weights / "away").rename(weights / name)
        encoder = encoder.trunk if model == "reader" else encoder
        public = torch.load(weights / "resnet18.pth", weights_only=True)
        assert torch.equal(encoder.resnet.layer3[0].conv1.weight, public["layer3.0.conv1.weight"])
        assert encoder.mean.flatten().tolist() == pytest.approx([0.485, 0.456, 0.406])

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["net.weights=FOLDER/none.pth"], "there is no such file"),
            (["net.weights=FOLDER/text.pth"], "cannot be read: give safetensors, or a state dict of torch"),
            (["net.weights=FOLDER/nested.pth"], "cannot be read"),
            (["net.weights=FOLDER/other.pth"], "the weights lack 'conv1.weight'"),
            *(
                ([f"net.weights=FOLDER/{name}.pth"], "hold NaN or infinity in 'conv1.weight' (1 such)")
                for name in ("nan", "large")
            ),
            (["net.weights=FOLDER/infinite.pth"], "hold NaN or infinity in 'bn1.running_var'"),
            *(
                ([f"net.weights=FOLDER/{name}.pth"], "have another type of 'conv1.weight'")
                for name in ("complex", "eighth", "whole", "sparse", "nowhere")
            ),
            (["net.weights=FOLDER/counted.pth"], "have another type of 'bn1.num_batches_tracked'"),
            (["net.weights=FOLDER/unnamed.pth"], "cannot be read"),
            (["net.weights=FOLDER/resnet18.pth", "net.width=32"], "whose width is 64: set net.width=64"),
            (["net.weights=FOLDER/resnet18.pth", "--model", "reader"], "whose width is 64: set net.width=64"),
        ],
    )
    def test_others_are_refused_in_one_line(self, setpred, squares, weights, tmp_path, words, message):
        words = [word.replace("FOLDER", str(weights)) for word in words]
        model = [] if "--model" in words else ["--model", "idspn", "net.latent=16", "net.hidden=16"]
        code, _, err = setpred("train", str(squares), *model, *words)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err
        assert not (tmp_path / "runs").exists()


def test_a_predictor_answers_in_pixels_of_the_canvas_or_of_the_originals(squares):
    settings = make_settings(str(squares), overrides=TINY)
    predictor = make_predictor(settings, read_schema(settings.data)).eval()
    assert isinstance(predictor, SetPredictor)
    images = torch.rand(2, 3, 32, 32)
    on_canvas = predictor.predict(images, threshold=-1)
    of_files = predictor.predict(images, threshold=-1, sizes=[(320, 160), (64, 64)])
    for small, large, factor in zip(on_canvas, of_files, (10, 2), strict=True):
        for one, other in zip(small, large, strict=True):
            assert other["at"] == pytest.approx([factor * number for number in one["at"]], rel=1e-4)

"""Predicted scenes are drawn where they are, and what is wrong can be seen."""

import re

import numpy as np
import pytest
import torch

from setpred.data.scenes import Scenes, studio
from setpred.matching import hungarian_loss
from setpred.report import report
from setpred.report.runs import predict_examples, read_run
from setpred.tasks import make_settings
from setpred.tasks.clevr_objects import STAGES
from setpred.training.run import train
from setpred.views.scenes import ScenesView, camera_of, pair_up, scene_figure
from setpred.views.style import ALARM, style

TINY = {
    "data.train": 16,
    "data.test": 6,
    "optim.batch": 8,
    "optim.steps": 2,
    "trainer.round": 2,
    "trainer.logger": None,
    "net.hidden": 16,
    "net.latent": 16,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SETPRED_CACHE", str(folder / "cache"))
        for model, extra in (("idspn", {}), ("slot-mlp", {}), ("idspn-sum", {"data.images": False})):
            train(make_settings("clevr", model, "quick", 0, TINY | extra), folder / model, quiet=True)
        yield {model: folder / model for model in ("idspn", "slot-mlp", "idspn-sum")}


@pytest.fixture(scope="module")
def scene():
    scenes = Scenes(size=32, seed=5, objects=(6, 6))
    images, sets, _ = scenes.batch([0])
    return images[0], sets[0], scenes.scene(0)


def red_words(figure, column, columns):
    words = figure.axes[-columns + column].texts
    return [word.get_text() for word in words if word.get_color() == ALARM]


def test_a_perfect_prediction_is_all_right_in_any_order(scene):
    _, sets, truth = scene
    pairs = pair_up(sets[torch.randperm(10)], sets)
    assert [pair.right for pair in pairs] == [True] * 6
    assert [pair.predicted["color"] for pair in pairs] == [thing["color"] for thing in truth.objects]


def test_what_is_wrong_is_red_and_nothing_else(scene):
    image, sets, truth = scene
    prediction = sets.clone()
    prediction[0, 13:16] = prediction[0, 13:16].roll(1)  # another shape
    prediction[1, :3] += torch.tensor([0.3, 0.0, 0.0])  # 0.9 away
    prediction[2, -1] = 0.2  # not there
    prediction[8] = prediction[3]  # twice
    figure = scene_figure(image, sets, {"good": sets, "bad": prediction}, truth.camera)
    assert red_words(figure, 0, 3) == red_words(figure, 1, 3) == []
    red = red_words(figure, 2, 3)
    (first,) = pair_up(prediction, sets)[:1]
    twice = truth.objects[3]
    assert red[:3] == [first.predicted["shape"], "0.90", "missed"]
    assert red[3:] == [*(twice[word] for word in ("size", "color", "material", "shape")), "extra"]
    assert [axes.get_title() for axes in figure.axes[:3]] == [
        "true: 6 objects",
        "good: 6 of 6 right",
        "bad: 3 of 6 right",
    ]


def test_marks_lie_on_the_objects_of_the_image(scene):
    image, sets, truth = scene
    figure = scene_figure(image, sets, {"good": sets}, truth.camera)
    places = np.array([mark.get_offsets()[0] for mark in figure.axes[1].collections])
    assert np.allclose(places, [thing["pixel_coords"][:2] for thing in truth.objects], atol=0.6)
    assert figure.axes[1].get_xlim() == (0, studio.WIDTH)


def test_a_prediction_that_is_not_finite_can_be_drawn(scene):
    image, sets, truth = scene
    figure = scene_figure(image, sets, {"lost": sets * torch.nan}, truth.camera)
    assert red_words(figure, 1, 2) == ["missed"] * 6


def test_stages_of_the_drawing_are_those_of_the_decoder(runs):
    run = read_run(runs["idspn"])
    shown = predict_examples(run).examples
    assert list(shown.iterates) == [f"{stage} iterations" for stage in STAGES]
    assert torch.allclose(shown.iterates["20 iterations"], shown.predicted, atol=1e-4)
    assert shown.inputs.dtype == torch.uint8
    assert torch.allclose(shown.error, hungarian_loss(shown.predicted, shown.target, "huber"))
    assert float(shown.error.mean()) == pytest.approx(run.metric("loss"), rel=0.1)  # which has other starts
    assert list(predict_examples(read_run(runs["slot-mlp"])).examples.iterates) == ["predicted"]


def test_the_camera_is_that_of_the_test_scene(runs):
    run = read_run(runs["idspn"])
    sets = predict_examples(run).examples.target
    points = 3 * sets[2][sets[2][:, -1] > 0, :3]
    pixels = studio.project(points.numpy(), camera_of(run.settings, 2))
    assert (pixels[:, :2] > 0).all()
    assert not np.allclose(camera_of(run.settings, 2), camera_of(run.settings, 3))


def test_the_page_shows_scenes_and_fetches_nothing(runs, tmp_path):
    text = report(runs.values(), tmp_path / "page.html", figures=tmp_path / "figures").read_text()
    links = re.findall(r'(?:href|src)="([^"]*)"', text)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert sum(link.startswith("data:") for link in links) == 2 * (5 + 2)  # first and worst scene, of two that see
    names = {path.name.rsplit("-", 1)[0] for path in (tmp_path / "figures").iterdir()}
    assert {"precision-clevr", "learning-clevr", "inner"} <= names
    for words in ("Slot MLP", "average precision", "the worst of 6 test scenes", "rendered scenes"):
        assert words in text


def test_scenes_are_saved_as_pictures(runs, tmp_path):
    from PIL import Image

    run = read_run(runs["idspn"])
    with style():
        figure = ScenesView().draw(predict_examples(run).examples, [1], "a run", run.settings)
        figure.savefig(tmp_path / "scene.png", dpi=160)
    with Image.open(tmp_path / "scene.png") as picture:
        assert picture.width > 1_500

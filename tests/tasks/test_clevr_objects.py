"""Scenes are learned from pictures, judged as a whole split, and rendered once."""

import json

import numpy as np
import pytest
import torch

from setpred.data.clevr import CLEVR_SCHEMA
from setpred.data.scene_cache import SceneSplit
from setpred.data.scenes import write
from setpred.data.synthetic import mixed_seed
from setpred.errors import UsageError
from setpred.inits import seeded_examples
from setpred.metrics import SetAveragePrecision
from setpred.tasks import find_task, make_experiment, make_settings
from setpred.tasks.clevr_objects import READERS
from setpred.tasks.parts import iterations_at
from setpred.training.module import TrainingModule, rate_schedule
from setpred.training.run import evaluate, train
from setpred.training.run_folder import load_run, read_result
from setpred.training.trainer import MetricsTable, make_trainer

TINY = {
    "data.train": 24,
    "data.test": 10,
    "optim.batch": 8,
    "optim.steps": 4,
    "trainer.round": 2,
    "trainer.logger": None,
    "net.hidden": 16,
    "net.latent": 16,
    "solver.steps": 6,
    "optim.iterations": "2,4",
}
THRESHOLDS = ("inf", "1", "0.5", "0.25", "0.125", "0.0625")
MODELS = list(find_task("clevr").models)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SETPRED_CACHE", str(folder))
        yield folder


def settings(model="idspn", **changes):
    overrides = TINY | {key.replace("__", "."): value for key, value in changes.items()}
    if model in find_task("clevr").without_decoder:
        of_decoders = ("solver.", "optim.iterations")
        overrides = {key: value for key, value in overrides.items() if not key.startswith(of_decoders)}
    return make_settings("clevr", model, "quick", 0, overrides)


@pytest.fixture(scope="module")
def run(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "idspn"
    train(settings(), out, quiet=True)
    return out


def test_a_run_reports_the_loss_and_both_average_precisions_at_every_distance(run):
    names = {"loss", "diverged", *(f"{kind}_{t}" for kind in ("ap", "image_ap") for t in THRESHOLDS)}
    assert set(read_result(run)["metrics"]) == names
    rows = (run / "metrics.csv").read_text().splitlines()
    assert "train/loss" in rows[0]
    assert len(rows) == 3


def test_average_precision_is_that_of_the_whole_split_whatever_the_batches(run):
    _, experiment = load_run(run)
    images, target = experiment.split("test")
    metric = SetAveragePrecision(CLEVR_SCHEMA)
    with torch.no_grad(), seeded_examples([mixed_seed(0, place) for place in range(len(target))]):
        metric.update(experiment(images), target)
    wanted = {name: float(value) for name, value in metric.compute().items()}
    experiment.evaluation_batch = 3
    module = TrainingModule(experiment, experiment.settings)
    (found,) = make_trainer(experiment.settings, None, None, quiet=True).test(module, verbose=False)
    assert {name: found[f"test/{name}"] for name in wanted} == pytest.approx(wanted)


def test_evaluating_again_gives_the_same_numbers_and_other_iterations_others(run):
    metrics = read_result(run)["metrics"]
    assert evaluate(run) == pytest.approx(metrics)
    assert evaluate(run, {"solver.eval_steps": 1})["loss"] != pytest.approx(metrics["loss"], rel=1e-4)


def test_a_run_that_is_resumed_ends_as_the_uninterrupted_one(run, tmp_path):
    write_row = MetricsTable.write

    def full_disk(self, trainer, module):
        if self.rows:
            raise OSError("no space left")
        write_row(self, trainer, module)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsTable, "write", full_disk)
        with pytest.raises(OSError, match="no space left"):
            train(settings(), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "result.json").exists()
    train(settings(), tmp_path / "run", resume=True, quiet=True)
    assert read_result(tmp_path / "run")["metrics"] == read_result(run)["metrics"]


@pytest.mark.parametrize("model", MODELS)
def test_every_model_gets_a_gradient_for_every_parameter(model):
    torch.manual_seed(0)
    experiment = make_experiment(settings(model))
    images, sets = (t[:4] for t in experiment.split("train"))
    experiment.loss((images, sets)).backward()
    without = [name for name, p in experiment.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert without == []


@pytest.mark.parametrize("model", ["idspn", "slot-attention-star"])
def test_a_few_scenes_can_be_learned(model):
    torch.manual_seed(0)
    experiment = make_experiment(settings(model, solver__steps=10, net__hidden=64, net__latent=64))
    batch = tuple(t[:4] for t in experiment.split("train"))
    optimizer = torch.optim.Adam(experiment.parameters(), lr=1e-3)
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = experiment.loss(batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_objects_are_autoencoded_without_images(cache, tmp_path):
    result = train(settings(data__images=False, data__train=32, data__test=16), tmp_path / "run", quiet=True)
    assert result["metrics"]["loss"] > 0
    with pytest.raises(UsageError, match=r"slot-mlp needs images: data.images=false is for the decoders"):
        make_experiment(settings("slot-mlp", data__images=False))


def test_iterations_follow_their_schedule_and_evaluation_does_not():
    experiment = make_experiment(settings())
    module = TrainingModule(experiment, experiment.settings)
    decoder = experiment.predictor.decoder
    used = []
    module._trainer = type("Place", (), {"global_step": 0, "global_rank": 0})()
    for step in range(4):
        module._trainer.global_step = step
        module.on_train_batch_start((), 0)
        used.append(decoder.solver.steps)
    assert used == [2, 2, 4, 4]
    assert decoder.eval()._steps(None) == 6


@pytest.mark.parametrize(
    ("schedule", "first", "last"), [("20,40", 20, 40), ("10,20,30,40", 10, 40), ("1-40", 1, 40), ("7", 7, 7)]
)
def test_a_schedule_covers_training_from_its_first_number_to_its_last(schedule, first, last):
    counts = [iterations_at(schedule, step, 1_000) for step in range(1_000)]
    assert (counts[0], counts[-1]) == (first, last)
    assert counts == sorted(counts)


def test_random_iterations_depend_on_seed_and_step_only():
    counts = [iterations_at("random-20-40", step, 1_000, seed=1) for step in range(1_000)]
    assert set(counts) == set(range(20, 41))
    assert counts == [iterations_at("random-20-40", step, 9, seed=1) for step in range(1_000)]
    assert counts != [iterations_at("random-20-40", step, 1_000, seed=2) for step in range(1_000)]


@pytest.mark.parametrize("schedule", ["", "0", "40-20", "a", "20,", "1-2-3", "random-5"])
def test_a_schedule_that_makes_no_sense_is_refused(schedule):
    with pytest.raises(UsageError, match="cannot be read: write 20,40 or 1-40 or random-20-40"):
        make_experiment(settings(optim__iterations=schedule))


def test_the_step_size_drops_for_the_last_tenth_and_warms_up_before_it_halves():
    drop, halving = rate_schedule("drop", 1_000), rate_schedule("halving", 150_000)
    assert [drop(step) for step in (0, 899, 900, 999)] == [1.0, 1.0, 0.1, 0.1]
    assert halving(0) < 0.01
    assert halving(1_000) == pytest.approx(1, abs=0.02)
    assert halving(101_000) / halving(51_000) == pytest.approx(0.5)


def test_scenes_are_made_once_and_shorter_splits_are_the_beginning_of_longer_ones(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("SETPRED_CACHE", str(tmp_path))
    long = SceneSplit("scenes", "train", 9, 16)
    images, sets = long.images(), long.sets()
    scenes = long.rendered()
    picture, _, _ = scenes.batch([5])
    assert torch.equal(images[5], picture[0])
    assert torch.equal(sets[5], scenes[5][1])
    made = sorted(tmp_path.rglob("*.npy"))
    short = SceneSplit("scenes", "train", 4, 16)
    assert torch.equal(short.images(), images[:4])
    assert torch.equal(short.sets(), sets[:4])
    assert sorted(tmp_path.rglob("*")) == sorted({*made, *(path.parent for path in made)})
    images[0] = 0
    assert long.images()[0].any(), "what a run does to its images must not reach the stored ones"


def test_a_broken_image_is_told_in_one_line_and_not_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("SETPRED_CACHE", str(tmp_path / "cache"))
    write(tmp_path / "mine [1]", 2, size=20)
    split = SceneSplit(str(tmp_path / "mine [1]"), "train", 2, 16)
    picture = tmp_path / "mine [1]/images/train/CLEVR_train_000001.png"
    whole = picture.read_bytes()
    picture.write_bytes(whole[:100])
    with pytest.raises(UsageError, match=r"scene 1: .*CLEVR_train_000001.png"):
        split.images()
    assert list(tmp_path.glob("cache/*/*")) == []
    picture.write_bytes(whole)
    assert split.images().shape == (2, 3, 16, 16)
    picture.unlink()
    assert split.images().shape == (2, 3, 16, 16), "what is stored is not read again"


def test_training_can_begin_where_another_run_ended(run, tmp_path):
    still = {"optim__start": str(run), "optim__lr": 0.0, "optim__steps": 2}
    train(settings(**still), tmp_path / "on", quiet=True)
    before, after = (dict(load_run(folder)[1].named_parameters()) for folder in (run, tmp_path / "on"))
    assert all(torch.equal(before[name], after[name]) for name in before)
    with pytest.raises(UsageError, match="does not fit"):
        train(settings(**still, net__pool="sum"), tmp_path / "other", quiet=True)
    with pytest.raises(UsageError, match=r"holds no model.safetensors"):
        train(settings(**still | {"optim__start": str(tmp_path / "none")}), tmp_path / "other", quiet=True)


def test_evaluating_on_other_scenes_needs_no_training_images(run, tmp_path):
    write(tmp_path / "other", 3, size=20, seed=4, split="val")
    metrics = evaluate(run, {"data.source": str(tmp_path / "other"), "data.test": 3})
    assert metrics["loss"] != pytest.approx(read_result(run)["metrics"]["loss"])


def test_training_and_test_scenes_differ():
    train_sets, test_sets = (SceneSplit("scenes", split, 5, 16).sets() for split in ("train", "val"))
    assert not torch.cdist(train_sets.flatten(1), test_sets.flatten(1)).eq(0).any()


def test_a_folder_in_clevr_s_layout_is_a_source(tmp_path):
    for split, count, seed in (("train", 8, 1), ("val", 3, 2)):
        write(tmp_path / "mine", count, size=20, seed=seed, split=split)
    data = {"data__source": str(tmp_path / "mine"), "data__train": 8, "data__test": 3}
    experiment = make_experiment(settings(**data))
    images, _ = experiment.split("train")
    assert images.shape == (8, 3, 64, 64)
    assert images.dtype == torch.uint8
    scenes = json.loads((tmp_path / "mine/scenes/CLEVR_val_scenes.json").read_text())["scenes"]
    place = np.array(scenes[1]["objects"][0]["3d_coords"])
    assert np.allclose(3 * experiment.split("test")[1][1, 0, :3].numpy(), place, atol=1e-5)
    with pytest.raises(UsageError, match=r"holds 3 scenes of split val, 4 are requested: set data.test=3 or fewer"):
        make_experiment(settings(**data | {"data__test": 4})).split("test")
    with pytest.raises(UsageError, match=r"data.source: .* is not a folder"):
        make_experiment(settings(data__source=str(tmp_path / "none"))).split("train")


@pytest.mark.parametrize(
    ("model", "separates_equals"), [("idspn", True), ("idspn-sum", False), ("slot-attention", False)]
)
def test_only_sorting_separates_equal_elements(model, separates_equals):
    torch.manual_seed(0)
    verdict = make_experiment(settings(model)).eval().double().check()
    assert verdict.multiset_equivariant
    assert verdict.exclusive is separates_equals


def test_a_model_that_starts_from_no_set_has_no_verdict():
    with pytest.raises(UsageError, match="slot-mlp starts from no set"):
        make_experiment(settings("slot-mlp")).eval().double().check()


@pytest.mark.parametrize(
    "wrong", [{"data__source": "no/such/folder"}, {"data__test": 0}, {"optim__iterations": "soon"}]
)
def test_what_cannot_be_trained_leaves_no_folder_behind(tmp_path, wrong):
    with pytest.raises(UsageError):
        train(settings(**wrong), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_presets_give_every_model_the_same_settings_but_what_is_its_own():
    small = {model: make_settings("clevr", model, "small") for model in MODELS if model not in READERS}
    assert len({str(s.data) for s in small.values()}) == 1
    assert len({s.optim.batch for s in small.values()}) == 1
    paper = {model: make_settings("clevr", model, "paper") for model in MODELS}
    assert (paper["idspn"].optim.batch, paper["slot-attention"].optim.batch) == (128, 512)
    assert paper["slot-attention"].optim.steps == 200_000
    assert paper["idspn"].optim.steps == 100 * (70_000 // 128)
    assert (paper["dspn"].solver["momentum"], paper["dspn"].solver["clip"], paper["idspn"].solver["clip"]) == (
        0.5,
        None,
        10.0,
    )

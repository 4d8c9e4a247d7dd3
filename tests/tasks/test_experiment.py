"""A decoder may learn first and alone, from the true sets; then the encoder of the inputs learns with it."""

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from setpred.errors import UsageError
from setpred.tasks import make_experiment, make_settings
from setpred.training.run import train
from setpred.training.run_folder import read_result

TINY = {
    "data.train": 60,
    "data.test": 20,
    "data.images": False,
    "init": "ZeroInit",
    "net.hidden": 16,
    "net.latent": 16,
    "optim.batch": 15,
    "optim.steps": 12,
    "optim.sets_first": 0.5,
    "solver.steps": 4,
    "optim.iterations": "2,4",
    "trainer.round": 6,
    "trainer.logger": None,
}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SETPRED_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def settings(**changes):
    return make_settings("clevr", "idspn", "quick", 0, TINY | changes)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_the_encoder_of_the_inputs_learns_nothing_before_its_turn(tmp_path, share):
    train(settings(**{"optim.sets_first": share}), tmp_path / "run", quiet=True)
    start = tmp_path / "run" / "checkpoints" / "last.ckpt"
    moved = torch.load(start, weights_only=True)["optimizer_states"][0]["state"]
    steps = {float(state["step"]) for state in moved.values()}
    assert steps == ({6.0, 12.0} if share else {12.0})


def test_at_first_the_sets_themselves_are_decoded_whatever_the_inputs():
    experiment = make_experiment(settings())
    inputs, target = experiment.split("test")
    losses = []
    for step in (5, 6):
        experiment.begin(step)
        losses.append([experiment.loss((some, target)).item() for some in (inputs, inputs.flip(0))])
    alone, together = losses
    assert alone[0] == alone[1]
    assert together[0] != together[1]


def test_a_folder_of_ones_own_may_begin_with_its_sets(tmp_path):
    line = json.dumps({"vector": [1.0, 2.0], "objects": [{"at": [0.5, 1.0]}, {"at": [2.0, 0.0]}]})
    for name in ("train", "val"):
        (tmp_path / f"{name}.jsonl").write_text(f"{line}\n" * 8)
    asked = {"optim.sets_first": 0.25, "optim.steps": 8}
    experiment = make_experiment(make_settings(str(tmp_path), "idspn", "quick", 0, asked))
    batch = experiment.split("train")
    for step, encoded in ((1, False), (2, True)):
        experiment.zero_grad()
        experiment.begin(step)
        experiment.loss(batch).backward()
        assert all((p.grad is not None) == encoded for p in experiment.predictor.encoder.parameters())


def test_two_processes_do_what_one_does(tmp_path):
    words = [f"{key}={value}" for key, value in (TINY | {"trainer.devices": 2}).items()]
    command = [sys.executable, "-m", "setpred", "train", "clevr", *words, "--preset", "quick"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--out", str(tmp_path / "two")], env=environment, check=True, timeout=300)
    train(settings(), tmp_path / "one", quiet=True)
    one, two = (read_result(tmp_path / name)["metrics"] for name in ("one", "two"))
    assert two == pytest.approx(one, abs=1e-5)
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, weight in ours.items():
        torch.testing.assert_close(theirs[name], weight, rtol=0, atol=1e-4, msg=name)


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_fraction_that_is_none_is_refused(share):
    with pytest.raises(UsageError, match=r"optim\.sets_first is .*: use a fraction"):
        settings(**{"optim.sets_first": share})


def test_models_without_a_decoder_have_none_to_begin_with():
    with pytest.raises(UsageError, match=r"slot-mlp has no decoder: optim.sets_first is for models that have one"):
        make_settings("clevr", "slot-mlp", "quick", overrides={"optim.sets_first": 0.1})


def test_tasks_without_other_inputs_have_no_such_setting():
    with pytest.raises(UsageError, match=r"unknown setting 'optim\.sets_first'"):
        make_settings("numbering", overrides={"optim.sets_first": 0.1})

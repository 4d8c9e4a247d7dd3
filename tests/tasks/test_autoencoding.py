"""Autoencoders learn sets of different sizes, where padding is no element; rivals rebuild sets from one vector."""

import pytest
import torch

from setpred import SetPredictor
from setpred.baselines.rivals import RIVALS
from setpred.errors import UsageError
from setpred.report import report
from setpred.tasks import find_task, make_experiment, make_settings
from setpred.training.run import train
from setpred.training.run_folder import load_run
from setpred.training.verdicts import check_run

TINY = {
    "data.n": 6,
    "data.smallest": 2,
    "data.train": 256,
    "data.test": 64,
    "net.hidden": 16,
    "net.latent": 16,
    "optim.steps": 4,
    "trainer.round": 2,
    "trainer.logger": None,
}


def settings(**changes):
    return make_settings("autoencoding", "idspn", "quick", 0, TINY | changes)


def test_sets_have_every_size_that_was_asked_for():
    sets, mask = make_experiment(settings()).split("train")
    assert mask.sum(dim=1).unique().tolist() == [2, 3, 4, 5, 6]
    assert not sets[~mask].any()


def test_what_stands_in_the_padding_changes_neither_the_prediction_nor_the_loss():
    experiment = make_experiment(settings()).eval()
    sets, mask = experiment.split("test")
    noisy = torch.where(mask.unsqueeze(-1), sets, torch.full_like(sets, 7.0))
    assert torch.equal(experiment(noisy, mask), experiment(sets, mask))
    assert torch.equal(experiment.judge((noisy, mask))["loss"], experiment.judge((sets, mask))["loss"])


def test_a_run_of_sets_of_different_sizes_is_trained_loaded_and_checked(tmp_path):
    result = train(settings(), tmp_path / "run", quiet=True)
    assert 0 < result["metrics"]["loss"] < 5
    assert load_run(tmp_path / "run")[0].data.smallest == 2
    assert check_run(tmp_path / "run").multiset_equivariant
    assert report([tmp_path / "run"], tmp_path / "report.html").exists()


@pytest.mark.parametrize("smallest", [0, 7])
def test_impossible_sizes_are_refused_before_anything_is_written(tmp_path, smallest):
    with pytest.raises(UsageError, match=r"data\.smallest"):
        train(settings(**{"data.smallest": smallest}), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def rival_settings(model, **changes):
    without = {"data.n": 4, "data.smallest": None}
    return make_settings("autoencoding", model, "quick", 0, TINY | without | changes)


def test_they_compete_in_every_task_whose_outputs_have_no_order():
    for task in ("autoencoding", "folder"):
        competing = find_task(task).models
        assert set(RIVALS) <= set(competing)


@pytest.mark.parametrize("model", RIVALS)
def test_a_rival_knows_of_a_set_what_its_vector_holds(model):
    experiment = make_experiment(rival_settings(model)).eval()
    sets, *_ = experiment.split("test")
    again = experiment(sets[:, torch.randperm(sets.shape[1])])
    torch.testing.assert_close(experiment(sets), again)  # the encoder pools, so the order of a set is not known
    learned = experiment.loss(tuple(part[:8] for part in experiment.split("train")))
    learned.backward()
    assert all(weight.grad is not None for weight in experiment.predictor.encoder.parameters())


def test_a_run_is_a_saved_model_and_has_a_report(tmp_path):
    result = train(rival_settings("mlp"), tmp_path / "run", quiet=True)
    assert 0 < result["metrics"]["loss"] < 5
    assert len(SetPredictor.from_pretrained(tmp_path / "run").predict(torch.rand(1, 4, 2))[0]) == 4
    assert report([tmp_path / "run"], tmp_path / "report.html").exists()


@pytest.mark.parametrize("key", ["net.shared", "data.smallest"])
def test_what_a_rival_cannot_do_is_refused(key):
    with pytest.raises(UsageError, match=key):
        make_experiment(rival_settings("mlp", **{key: 2 if key == "data.smallest" else True}))

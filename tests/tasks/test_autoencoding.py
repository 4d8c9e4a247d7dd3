"""Autoencoders learn sets of different sizes; padding is no part of a set."""

import pytest
import torch

from setpred.errors import UsageError
from setpred.report import report
from setpred.tasks import make_experiment, make_settings
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

"""Rivals rebuild sets from one vector, as the decoders do, and are saved, judged and compared like them."""

import pytest
import torch

from setpred import SetPredictor
from setpred.errors import UsageError
from setpred.report import report
from setpred.tasks import find_task, make_experiment, make_settings
from setpred.tasks.rival_recipes import RIVALS
from setpred.training.run import train

TINY = {
    "data.train": 256,
    "data.test": 32,
    "net.hidden": 16,
    "net.latent": 16,
    "optim.steps": 4,
    "trainer.round": 2,
    "trainer.logger": None,
}


def settings(model, **changes):
    return make_settings("autoencoding", model, "quick", 0, TINY | changes)


def test_they_compete_in_every_task_whose_outputs_have_no_order():
    for task in ("autoencoding", "folder"):
        competing = find_task(task).models
        assert set(RIVALS) <= set(competing)


@pytest.mark.parametrize("model", RIVALS)
def test_a_rival_knows_of_a_set_what_its_vector_holds(model):
    experiment = make_experiment(settings(model)).eval()
    sets, *_ = experiment.split("test")
    again = experiment(sets[:, torch.randperm(sets.shape[1])])
    torch.testing.assert_close(experiment(sets), again)  # the encoder pools, so the order of a set is not known
    learned = experiment.loss(tuple(part[:8] for part in experiment.split("train")))
    learned.backward()
    assert all(weight.grad is not None for weight in experiment.predictor.encoder.parameters())


def test_a_run_is_a_saved_model_and_has_a_report(tmp_path):
    result = train(settings("mlp"), tmp_path / "run", quiet=True)
    assert 0 < result["metrics"]["loss"] < 5
    assert len(SetPredictor.from_pretrained(tmp_path / "run").predict(torch.rand(1, 4, 2))[0]) == 4
    assert report([tmp_path / "run"], tmp_path / "report.html").exists()


@pytest.mark.parametrize("key", ["net.shared", "data.smallest"])
def test_what_a_rival_cannot_do_is_refused(key):
    with pytest.raises(UsageError, match=key):
        make_experiment(settings("mlp", **{key: 2 if key == "data.smallest" else True}))

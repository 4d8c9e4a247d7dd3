"""The recommended recipe is a preset where there is evidence, and its ideas can be taken away one by one."""

import pytest
import torch

from setpred.decoder import SetDecoder
from setpred.errors import UsageError
from setpred.training.autoencoding import BEST
from setpred.training.run import evaluate, train
from setpred.training.settings import flatten, to_dict
from setpred.training.tasks import TASKS, make_experiment, make_settings

TINY = {"data.train": 256, "data.test": 64, "net.hidden": 16, "net.latent": 16, "optim.steps": 8, "trainer.round": 4}


@pytest.mark.parametrize(("preset", "size"), [("best", "paper"), ("small-best", "small"), ("quick-best", "quick")])
def test_the_recipe_changes_what_it_says_and_nothing_else(preset, size):
    for model in TASKS["autoencoding"].models:
        plain, best = (flatten(to_dict(make_settings("autoencoding", model, name))) for name in (size, preset))
        differing = {key for key in best if best[key] != plain[key]} - {"preset"}
        assert differing == {*BEST} - ({"solver.settle"} if best["solver.name"] != "nesterov" else set())


@pytest.mark.parametrize("task", ["numbering", "clevr"])
def test_there_is_no_recipe_without_evidence(task):
    with pytest.raises(UsageError, match="unknown preset 'best': there are paper, small, quick"):
        make_settings(task, preset="best")


@pytest.mark.parametrize("task", ["autoencoding", "numbering", "clevr"])
def test_the_second_loss_is_the_inner_loss_of_the_true_sets(task, monkeypatch, tmp_path):
    monkeypatch.setenv("SETPRED_CACHE", str(tmp_path))
    sizes = {"data.train": 4, "data.test": 2, "net.hidden": 8, "net.latent": 8}
    sizes |= {"data.images": False} if task == "clevr" else {}
    torch.manual_seed(0)
    experiment = make_experiment(make_settings(task, "idspn", "quick", overrides=sizes)).double()
    batch = tuple(part.double() for part in experiment.split("train"))
    (decoder,) = (part for part in experiment.modules() if isinstance(part, SetDecoder))
    encoder = experiment.model.encoder if task == "numbering" else getattr(experiment, "predictor", experiment).encoder
    z, target = encoder(batch[0]), batch[-1]
    if task == "numbering":
        target = torch.cat([batch[0], target], dim=-1)

    def loss(weight):
        experiment.settings.optim.representation = weight
        torch.manual_seed(1)  # of the initial sets
        return experiment.loss(batch)

    inner = 0.5 * (decoder.encoder(target) - z).square().mean()
    torch.testing.assert_close(loss(3.0) - loss(0.0), 3 * inner)
    gradients = torch.autograd.grad(loss(1e6) / 1e6, [*encoder.parameters(), *decoder.encoder.parameters()])
    assert all(gradient.abs().max() > 0 for gradient in gradients)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_the_second_loss_has_a_weight_from_zero_on(weight):
    with pytest.raises(UsageError, match=r"optim\.representation is"):
        make_settings("autoencoding", overrides={"optim.representation": weight})
    with pytest.raises(UsageError, match="bilstm encodes no sets"):
        make_settings("numbering", "bilstm", overrides={"optim.representation": 0.1})


def test_a_last_step_without_momentum_needs_momentum(tmp_path):
    settings = make_settings("autoencoding", "dspn", "quick", overrides=TINY | {"solver.settle": True})
    with pytest.raises(UsageError, match="settle is for nesterov"):
        train(settings, tmp_path / "run", quiet=True)


def test_training_with_the_recipe_may_begin_where_training_without_it_ended(tmp_path):
    train(make_settings("autoencoding", preset="quick", overrides=TINY), tmp_path / "plain", quiet=True)
    start = {"optim.start": str(tmp_path / "plain")}
    train(make_settings("autoencoding", preset="quick-best", overrides=TINY | start), tmp_path / "best", quiet=True)


def test_a_run_of_the_recipe_is_evaluated_with_and_without_its_ideas(tmp_path):
    train(make_settings("autoencoding", preset="quick-best", overrides=TINY), tmp_path / "run", quiet=True)
    with_all = evaluate(tmp_path / "run")["loss"]
    with pytest.raises(UsageError, match="learned in training"):
        evaluate(tmp_path / "run", {"restart.share": 0.5})
    for change in ({"restart.share": None}, {"solver.settle": False}, {"solver.eval_steps": 9}):
        assert evaluate(tmp_path / "run", change)["loss"] != with_all

"""The recommended recipe is a preset where there is evidence, and its ideas can be taken away one by one."""

import json

import pytest
import torch
from safetensors.torch import load_file

from setpred.errors import UsageError
from setpred.matching import hungarian_loss
from setpred.tasks import autoencoding, clevr_objects, find_task, make_experiment, make_settings
from setpred.tasks.settings import flatten, to_dict
from setpred.training.run import evaluate, train
from setpred.training.run_folder import load_run

RESTARTS = {"restart", "restart.fraction", "solver.eval_steps"}
RECIPES = {
    "autoencoding": {*autoencoding.BEST, *RESTARTS},
    "numbering": {"solver.lr", "adjoint.straight", "optim.lr", "optim.schedule", *RESTARTS},
    "clevr": {*clevr_objects.BEST},
}
TINY = {"data.train": 256, "data.test": 64, "net.hidden": 16, "net.latent": 16, "optim.steps": 8, "trainer.round": 4}


@pytest.mark.parametrize("task", RECIPES)
@pytest.mark.parametrize(("preset", "size"), [("best", "paper"), ("small-best", "small"), ("quick-best", "quick")])
def test_the_recipe_changes_what_it_says_and_nothing_else(task, preset, size):
    for model in find_task(task).models:
        plain, best = (flatten(to_dict(make_settings(task, model, name))) for name in (size, preset))
        differing = {key for key in best if best[key] != plain.get(key)} - {"preset", "restart.std"}
        expected = RECIPES[task] if find_task(task).iterates(model) else set()
        idle = {"solver.settle"} if best["solver"] != "Nesterov" else set()
        idle |= {"adjoint.straight", "solver.lr"} if best["adjoint"] != "Identity" else set()
        assert differing == expected - idle


def test_the_step_of_numbering_grows_with_the_elements():
    steps = [make_settings("numbering", preset=preset).solver["lr"] for preset in ("quick-best", "small-best", "best")]
    assert steps == [37.5, 56.25, 300]
    assert make_settings("numbering", preset="best", overrides={"data.n": 32}).solver["lr"] == 150
    assert make_settings("numbering", preset="best", overrides={"solver.lr": 7.0}).solver["lr"] == 7


@pytest.mark.parametrize(("steps", "evaluated"), [(10, 8), (40, 32), (1, 1)])
def test_evaluation_with_restarts_is_as_much_work_as_the_iterations_of_training(steps, evaluated):
    for task in ("autoencoding", "numbering"):
        settings = make_settings(task, preset="best", overrides={"solver.steps": steps})
        assert settings.solver["eval_steps"] == evaluated


def test_without_evidence_the_best_of_a_folder_is_its_default(tmp_path):
    line = json.dumps({"vector": [1.0, 2.0], "objects": [{"at": [0.5, 0.1]}]})
    for split in ("train", "val"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join([line] * 10))
    usual, best = (make_settings(str(tmp_path), preset=preset) for preset in ("small", "best"))
    best.preset = usual.preset
    assert usual == best


def test_a_guess_is_trained_on_the_true_sets_and_leaves_the_vector_alone():
    torch.manual_seed(0)
    sizes = {"data.train": 8, "data.test": 2, "data.smallest": 1, "net.hidden": 8, "net.latent": 8}
    settings = make_settings("autoencoding", "idspn", "quick", overrides=sizes | {"init": "GuessedInit"})
    experiment = make_experiment(settings).double()
    sets, mask = experiment.split("train")
    sets, init, parts = sets.double(), experiment.decoder.init, [*experiment.encoder.parameters()]
    z = experiment.encoder(sets, mask)
    decoded, guessed = (
        hungarian_loss(found, sets, mask=mask, prediction_mask=mask).mean()
        for found in (experiment.decoder(z, mask), init(len(z), z))
    )
    loss = experiment.loss((sets, mask))
    torch.testing.assert_close(loss, decoded + guessed)
    of_both = torch.autograd.grad(loss, [*parts, *init.parameters()])
    of_decoded = torch.autograd.grad(decoded, parts)
    of_guess = torch.autograd.grad(guessed, [*init.parameters()])
    torch.testing.assert_close(of_both, (*of_decoded, *of_guess))
    assert all(gradient.abs().max() > 0 for gradient in of_guess)


def test_a_guess_that_cannot_see_what_is_given_is_refused():
    with pytest.raises(UsageError, match="use init=RandomInit"):
        make_experiment(make_settings("numbering", preset="quick", overrides={"init": "GuessedInit"}))


def test_a_last_step_without_momentum_needs_momentum():
    with pytest.raises(UsageError, match=r"solver\.settle is for Nesterov, not GradientDescent"):
        make_settings("autoencoding", "dspn", "quick", overrides=TINY | {"solver.settle": True})


def test_training_with_the_recipe_may_begin_where_training_without_it_ended(tmp_path):
    train(make_settings("autoencoding", preset="quick", overrides=TINY), tmp_path / "plain", quiet=True)
    same_parts = {"net.shared": False, "init": "LearnedInit", "optim.start": str(tmp_path / "plain")}
    settings = make_settings("autoencoding", preset="quick-best", overrides=TINY | same_parts)
    train(settings, tmp_path / "best", quiet=True)


def test_a_run_of_the_recipe_is_evaluated_with_and_without_its_ideas(tmp_path):
    train(make_settings("autoencoding", preset="quick-best", overrides=TINY), tmp_path / "run", quiet=True)
    with_all = evaluate(tmp_path / "run")["loss"]
    with pytest.raises(UsageError, match="learned in training"):
        evaluate(tmp_path / "run", {"restart.fraction": 0.5})
    for change in ({"restart": None}, {"solver.settle": False}, {"solver.eval_steps": 9}):
        assert evaluate(tmp_path / "run", change)["loss"] != with_all


def test_one_encoder_for_both_ends_is_saved_once_and_makes_the_true_set_the_minimum(tmp_path):
    changes = TINY | {"net.shared": True, "init": "RandomInit", "data.n": 3}
    settings = make_settings("autoencoding", preset="quick", overrides=changes)
    train(settings, tmp_path / "run", quiet=True)
    names = load_file(tmp_path / "run" / "model.safetensors").keys()
    assert all(name.startswith("decoder.") for name in names)
    _, experiment = load_run(tmp_path / "run")
    (sets,) = experiment.split("test")
    found = experiment.decoder.solve(experiment.encoder(sets), init=sets, steps=1)
    assert found.loss.max() < 1e-12
    with pytest.raises(UsageError, match=r"net\.shared is what the weights were trained with"):
        evaluate(tmp_path / "run", {"net.shared": False})
    experiment.as_predictor().save_pretrained(tmp_path / "packed")

"""A part has one description: its class. Settings, files and saved models follow from its constructor."""

import json
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import yaml

import setpred
from setpred import SetDecoder, SetEncoder
from setpred.errors import UsageError
from setpred.tasks import make_experiment, make_settings
from setpred.tasks.settings import flatten, parse_overrides, to_dict
from setpred.training.run_folder import load_run, read_config, write_config

OLD = Path(__file__).parent / "old_runs"
SIGN = '''
from dataclasses import KW_ONLY, dataclass

from setpred import Solver


@dataclass
class SignDescent(Solver):
    """Steps of one length in the direction of the gradient's signs."""

    _: KW_ONLY
    shrink: float = 0.9

    def update(self, sets, grad, state, t):
        return sets - self.lr * self.shrink**t * grad.sign(), None
'''


@pytest.fixture
def sign_descent(tmp_path, monkeypatch):
    """A solver in a file of its own, and its line in the table."""
    (tmp_path / "sign_descent.py").write_text(textwrap.dedent(SIGN))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(setpred.PUBLIC, "SignDescent", "sign_descent")
    yield setpred.SignDescent
    sys.modules.pop("sign_descent", None)


def settings_of(*words, task="autoencoding", model="idspn"):
    return make_settings(task, model, "quick", overrides=parse_overrides(words))


def test_a_new_solver_is_known_to_settings_files_and_saved_models(sign_descent, tmp_path):
    settings = settings_of("solver=SignDescent", "solver.shrink=0.5", "solver.steps=7")
    assert make_experiment(settings).decoder.solver == sign_descent(steps=7, shrink=0.5)

    write_config(settings, tmp_path / "run")
    assert read_config(tmp_path / "run").solver == settings.solver
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["solver"]["class"] == "SignDescent"

    decoder = SetDecoder(SetEncoder(2, 8, 8, 3), solver=sign_descent(steps=2, shrink=0.5))
    loaded = SetDecoder.from_pretrained(decoder.save_pretrained(tmp_path / "saved"))
    assert loaded.solver == decoder.solver

    with pytest.raises(UsageError, match=r"solver.shrink is for SignDescent, not Nesterov"):
        settings_of("solver.shrink=0.5")
    with pytest.raises(UsageError, match=r"unknown solver 'SignDecent': did you mean SignDescent"):
        settings_of("solver=SignDecent")
    with pytest.raises(UsageError, match=r"solver.shrink='soft': it is a number"):
        settings_of("solver=SignDescent", "solver.shrink=soft")


def test_settings_of_a_part_are_the_arguments_of_its_class():
    settings = settings_of("solver=TorchOptimizer", "solver.optimizer=Adam", "solver.lr=0.1", "constraint=Box")
    experiment = make_experiment(settings)
    assert experiment.decoder.solver == setpred.TorchOptimizer(torch.optim.Adam, lr=0.1)
    assert experiment.decoder.constraint == setpred.Box()
    assert make_experiment(settings_of("net.pool=MaxPool")).decoder.encoder.pool.__class__ is setpred.MaxPool


def test_another_class_keeps_the_settings_that_both_have():
    settings = settings_of("solver.lr=0.5", "solver.momentum=0.3", model="idspn")
    assert settings.solver["momentum"] == 0.3
    changed = settings_of("solver=GradientDescent", "solver.lr=0.5")
    assert changed.solver["lr"] == 0.5
    assert "momentum" not in changed.solver


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["solver.name=gradient-descent"], ["solver=GradientDescent"]),
        (["solver.name=Adam"], ["solver=TorchOptimizer", "solver.optimizer=Adam"]),
        (["solver.schedule=5,10"], ["optim.iterations=5,10"]),
        (
            ["adjoint.name=conjugate-gradient", "adjoint.gamma=10"],
            ["adjoint=ConjugateGradient", "adjoint.gamma=10"],
        ),
        (["init.name=zero"], ["init=ZeroInit"]),
        (["restart.share=0.1", "restart.std=1"], ["restart=Restart", "restart.fraction=0.1", "restart.std=1"]),
        (["net.constraint=simplex"], ["constraint=Simplex"]),
    ],
)
def test_old_words_mean_what_they_meant_and_say_what_they_are_now(old, new):
    with pytest.warns(FutureWarning, match=f"is now written {new[0]}"):
        settings = settings_of(*old)
    assert settings == settings_of(*new)


@pytest.mark.parametrize("run", sorted(OLD.iterdir()), ids=lambda run: run.name)
def test_runs_of_earlier_versions_predict_as_before(run):
    settings, experiment = load_run(run, {"data.test": 4})
    expected = json.loads((run / "predicted.json").read_text())
    with torch.no_grad():
        assert torch.allclose(experiment.sets(experiment.split("test")), torch.tensor(expected), atol=1e-5)
    written = yaml.safe_load((run / "config.yaml").read_text())
    kept = {key: value for key, value in flatten(written).items() if key.startswith(("net.h", "optim.l", "data.n"))}
    assert kept.items() <= flatten(to_dict(settings)).items()


def test_training_may_minimise_the_chamfer_loss_which_is_blind_to_multiplicity():
    # A set of two points, decoded as if a third of its elements were the other point.
    torch.manual_seed(0)
    hungarian, chamfer = (make_experiment(settings_of(f"optim.loss={loss}")) for loss in ("none", "chamfer"))
    chamfer.load_state_dict(hungarian.state_dict())
    (sets,) = (t[:16] for t in hungarian.split("train"))
    z = hungarian.encoder(sets)
    decoded = hungarian.decoder(z)
    assert hungarian.loss((sets,)).item() == pytest.approx(setpred.hungarian_loss(decoded, sets).mean().item())
    assert chamfer.loss((sets,)).item() == pytest.approx(setpred.chamfer_loss(decoded, sets).mean().item())


@pytest.mark.parametrize(
    ("task", "model", "loss", "message"),
    [
        ("autoencoding", "idspn", "hamfer", "unknown optim.loss 'hamfer': did you mean chamfer?"),
        ("numbering", "idspn", "chamfer", "unknown optim.loss 'chamfer'"),
        ("clevr", "slot-mlp", "chamfer", "slot-mlp has no decoder: optim.loss is for models that have one"),
    ],
)
def test_a_loss_that_a_model_cannot_minimise_is_refused(task, model, loss, message):
    with pytest.raises(UsageError, match=message):
        settings_of(f"optim.loss={loss}", task=task, model=model)


def test_rivals_may_be_trained_on_squared_distances():
    (inputs, target) = (t[:8] for t in make_experiment(settings_of(task="numbering", model="bilstm")).split("train"))
    experiment = make_experiment(settings_of("optim.loss=squared", task="numbering", model="bilstm"))
    wanted = setpred.hungarian_loss(experiment(inputs), target, "squared", same_class=inputs.argmax(-1)).mean()
    assert experiment.loss((inputs, target)).item() == pytest.approx(wanted.item())

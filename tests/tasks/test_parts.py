"""A part has one description: its class. Settings, files and saved models follow from its constructor."""

import json
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import yaml

import setpred
from setpred import SetPredictor
from setpred.errors import UsageError
from setpred.tasks import make_experiment, make_settings
from setpred.tasks.settings import flatten, parse_overrides, to_dict
from setpred.training.run import train
from setpred.training.run_folder import load_run, read_config

OLD = Path(__file__).parent / "old_runs"
OWN = '''
from dataclasses import KW_ONLY, dataclass

import torch
from torch import nn

from setpred import Constraint, Implicit, Init, Solver


@dataclass
class SignDescent(Solver):
    """Steps of one length in the direction of the gradient's signs."""

    _: KW_ONLY
    shrink: float = 0.9

    def update(self, sets, grad, state, t):
        return sets - self.lr * self.shrink**t * grad.sign(), None


@dataclass
class Below(Constraint):
    """Every number at most `top`."""

    top: float = 0.1

    def __call__(self, sets):
        return sets.clamp(max=self.top)


@dataclass
class Halved(Implicit):
    """A part of what `Identity` gives."""

    by: float = 2.0

    def implicit_step(self, grad, point, constraint, given):
        return -grad / self.by


class Scattered(Init):
    """Elements at equal distances on a line."""

    def __init__(self, end: float = 1.0):
        super().__init__()
        self.end = end

    def forward(self, batch, like, generator=None):
        line = torch.linspace(-self.end, self.end, self.size).to(like)
        return line[:, None].expand(batch, self.size, self.dim)


class MidrangePool(nn.Module):
    """The middle between the smallest and the largest value."""

    def forward(self, features, mask=None):
        return (features.amin(dim=1) + features.amax(dim=1)) / 2
'''
NEW = {
    "SignDescent": ["solver=SignDescent", "solver.shrink=0.5", "solver.steps=7"],
    "Below": ["constraint=Below", "constraint.top=0.3"],
    "Halved": ["adjoint=Halved", "adjoint.by=4"],
    "Scattered": ["init=Scattered", "init.end=0.5"],
    "MidrangePool": ["net.pool=MidrangePool"],
}


@pytest.fixture
def own_parts(tmp_path, monkeypatch):
    """A class of each kind in a file of its own, and their lines in the table."""
    (tmp_path / "own_parts.py").write_text(textwrap.dedent(OWN))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in NEW:
        monkeypatch.setitem(setpred.PUBLIC, name, "own_parts")
    yield
    sys.modules.pop("own_parts", None)


def settings_of(*words, task="autoencoding", model="idspn"):
    return make_settings(task, model, "quick", overrides=parse_overrides(words))


@pytest.mark.parametrize("name", NEW)
def test_a_new_part_is_known_to_settings_files_and_saved_models(own_parts, tmp_path, name):
    settings = settings_of(*NEW[name], "data.train=32", "data.test=8", "optim.steps=2", "trainer.logger=none")
    train(settings, tmp_path / "run", quiet=True)
    written = flatten(yaml.safe_load((tmp_path / "run" / "config.yaml").read_text()))
    assert name in written.values()
    assert read_config(tmp_path / "run") == settings

    loaded, (_, experiment) = SetPredictor.from_pretrained(tmp_path / "run"), load_run(tmp_path / "run")
    decoder = loaded.decoder
    found = [decoder.solver, decoder.constraint, decoder.adjoint, decoder.init, decoder.encoder.pool]
    assert name in [type(part).__name__ for part in found]
    (sets,) = experiment.split("test")
    with torch.no_grad():
        assert torch.equal(loaded(sets), experiment.sets((sets,)))


def test_arguments_that_a_new_part_does_not_have_are_refused(own_parts):
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
    # The expected sets were computed in double precision: in single precision, rounding decides which of two nearly
    # equal elements a sort puts first, and some sets differ by more than rounding for it, on one machine or another.
    settings, experiment = load_run(run, {"data.test": 4})
    expected = torch.tensor(json.loads((run / "predicted.json").read_text()), dtype=torch.double)
    batch = experiment.split("test")
    with torch.no_grad():
        torch.testing.assert_close(experiment.sets(batch).double(), expected, rtol=0, atol=1e-5)
        exact = tuple(part.double() if part.is_floating_point() else part for part in batch)
        torch.testing.assert_close(experiment.double().sets(exact), expected, rtol=0, atol=1e-6)
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

"""A diverging inner loop is flagged and counted, and training goes on."""

import math

import pytest
import torch
from divergence import CASES, measure, survived

from setpred.tasks import make_experiment, make_settings

TOO_LONG = {"solver.lr": 1e4}  # steps that no inner optimisation survives


@pytest.mark.parametrize("name", CASES)
def test_training_goes_on_where_the_inner_loop_diverges(name):
    model, changes, _ = CASES[name]
    end = survived(model, {**changes, **TOO_LONG}, seed=0, steps=2, batch=4)
    assert end["steps"] == 2
    assert math.isfinite(end["loss"])
    assert end["flagged"] == 8  # every example of both steps


def test_what_diverged_is_in_the_logged_diagnostics():
    sizes = {"data.n": 3, "data.d": 2, "data.train": 4, "data.test": 1, "net.hidden": 8, "net.latent": 8}
    experiment = make_experiment(make_settings("autoencoding", "idspn-sum", "paper", 0, {**sizes, **TOO_LONG}))
    loss = experiment.loss(experiment.split("train"))
    loss.backward()
    assert loss.isfinite()
    assert experiment.diagnostics()["diverged"] == 1
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in experiment.parameters())


@pytest.mark.nightly
def test_no_seed_is_lost_with_the_guard(note):
    table = measure(seeds=8)
    note("of 8 seeds", table)
    assert all(end["survived"] == 8 for name, end in table.items() if name.endswith(", guarded"))
    assert any(end["survived"] < 8 for name, end in table.items() if name.endswith(", not guarded"))

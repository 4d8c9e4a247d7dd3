"""A training with a budget makes as many steps as fit into it, and goes on where it was."""

import json

import pytest

from setpred.errors import UsageError
from setpred.tasks import make_settings
from setpred.training.run import train
from setpred.training.run_folder import read_config

SMALL = {"data.train": 512, "data.test": 64, "net.hidden": 16, "net.latent": 16, "trainer.logger": None}


def settings(budget):
    return make_settings("autoencoding", "idspn", "quick", overrides={**SMALL, "optim.budget": budget})


def test_a_budget_is_spent_and_decides_the_steps(tmp_path):
    result = train(settings(2.0), tmp_path / "run", quiet=True)
    written = read_config(tmp_path / "run")
    assert result["steps"] == written.optim.steps != settings(2.0).optim.steps
    assert 1.0 < result["cpu_seconds"] < 4.0  # the pace is that of the first steps
    rows = (tmp_path / "run/metrics.csv").read_text().splitlines()
    assert len(rows) - 1 <= 8

    weights = (tmp_path / "run/model.safetensors").read_bytes()
    for name in ("result.json", "model.safetensors"):
        (tmp_path / "run" / name).unlink()
    again = train(settings(2.0), tmp_path / "run", resume=True, quiet=True)
    assert again["steps"] == result["steps"]
    assert again["metrics"] == result["metrics"]
    assert (tmp_path / "run/model.safetensors").read_bytes() == weights
    assert json.loads((tmp_path / "run/result.json").read_text())["cpu_seconds"] == result["cpu_seconds"]
    with pytest.raises(UsageError, match=r"was started with optim.budget=2.0, not 3.0"):
        train(settings(3.0), tmp_path / "run", resume=True, quiet=True)


def test_a_budget_that_is_too_small_for_its_rounds_says_what_to_give(tmp_path):
    with pytest.raises(UsageError, match=r"optim.budget=1e-06: a step of idspn takes .* give 1 or more"):
        train(settings(1e-6), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()

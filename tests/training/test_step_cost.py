"""What steps take: large sets are estimated, and refused beyond a limit; a budget is spent, by the measured pace."""

import json
import subprocess
import sys

import pytest

from setpred.errors import UsageError
from setpred.tasks import make_experiment, make_settings
from setpred.tasks.settings import changed
from setpred.training.run import train
from setpred.training.run_folder import read_config
from setpred.training.step_cost import check_cost, step_cost

SMALL = {"data.train": 512, "data.test": 64, "net.hidden": 16, "net.latent": 16, "trainer.logger": None}


def points(**changes):
    overrides = {f"data.{key}" if key in ("n", "train") else f"optim.{key}": value for key, value in changes.items()}
    return make_experiment(make_settings("autoencoding", "idspn", "quick", overrides=overrides))


def test_small_sets_are_not_worth_a_line():
    assert step_cost(points(n=10)) is None


def test_the_estimate_grows_as_sets_batches_and_unrolled_steps_do():
    cost = step_cost(points(n=500, batch=4))
    assert step_cost(points(n=1_000, batch=4)).memory > 2 * cost.memory
    assert step_cost(points(n=500, batch=8)).memory > 1.5 * cost.memory
    settings = make_settings("autoencoding", "dspn", "quick", overrides={"data.n": 500, "optim.batch": 4})
    assert step_cost(make_experiment(settings)).memory > 2 * cost.memory


def test_a_setting_raises_the_limit():
    experiment = points(n=20_000, batch=128)
    with pytest.raises(UsageError, match=r"20,000 elements.* GB .*trainer.memory is 8"):
        check_cost(experiment)
    experiment.settings = changed(experiment.settings, {"trainer.memory": 10_000})
    check_cost(experiment)


@pytest.fixture
def crowd(tmp_path):
    objects = [{"at": [i % 100, i // 100]} for i in range(20_000)]
    for split in ("train", "val"):
        lines = [{"vector": [1.0, 2.0], "objects": objects}, {"vector": [0.0, 1.0], "objects": objects[:3]}]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(tmp_path)


def test_one_line_with_twenty_thousand_objects(crowd, tmp_path):
    # In processes of their own: what other threads of this one do to its streams changes nothing.
    def setpred(*words):
        command = [sys.executable, "-m", "setpred", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stderr

    code, err = setpred("train", crowd, "--out", "run")
    assert code == 2
    assert "sets of up to 20,000 elements: a training step takes about" in err
    assert "raise trainer.memory" in err
    assert not (tmp_path / "run").exists()
    code, err = setpred("data", "inspect", crowd)
    assert code == 0
    assert "sets of up to 20,000 elements: a training step takes about" in err
    assert "setpred train would refuse" in err


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

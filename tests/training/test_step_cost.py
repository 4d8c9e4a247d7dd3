"""Large sets: what they cost is said before training begins, and refused beyond a limit that a setting raises."""

import json

import pytest

from setpred.errors import UsageError
from setpred.tasks import make_experiment, make_settings
from setpred.tasks.settings import changed
from setpred.training.step_cost import check_cost, step_cost


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


def test_one_line_with_twenty_thousand_objects(setpred, crowd, tmp_path):
    code, _, err = setpred("train", crowd, "--out", "run")
    assert code == 2
    assert "sets of up to 20,000 elements: a training step takes about" in err
    assert "raise trainer.memory" in err
    assert not (tmp_path / "run").exists()
    code, _, err = setpred("data", "inspect", crowd)
    assert code == 0
    assert "sets of up to 20,000 elements: a training step takes about" in err
    assert "setpred train would refuse" in err

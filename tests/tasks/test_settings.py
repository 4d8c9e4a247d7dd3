"""Settings mean the same from Python as from the command line, and a training leaves the process as it was."""

import logging
import warnings

import pytest

from setpred.errors import UsageError
from setpred.tasks import make_settings
from setpred.tasks.old_spellings import read_settings
from setpred.tasks.settings import Settings, changed, flatten, parse_overrides, to_dict
from setpred.training.run import train

LIGHTNING = ("lightning.pytorch", "lightning.fabric")


@pytest.mark.parametrize("none", [None, "none", "None"])
def test_none_is_a_value_however_it_is_written(none):
    assert changed(Settings(), {"trainer.logger": none}).trainer.logger is None
    assert changed(Settings(), parse_overrides([f"solver.clip={none}"])).solver["clip"] is None


@pytest.mark.parametrize("text", ["0123", "1_0", "12:30", "yes", "2024-01-01", "1e4", "[a", "{b: c}", "null"])
def test_names_stay_as_they_are_written(text):
    assert changed(Settings(), parse_overrides([f"optim.start={text}"])).optim.start == text


@pytest.mark.parametrize(("key", "text", "value"), [("optim.steps", "1e4", 10_000), ("solver.eval_steps", "1e2", 100)])
def test_whole_numbers_may_be_written_with_an_exponent(key, text, value):
    made = changed(Settings(), parse_overrides([f"{key}={text}"]))
    assert flatten(to_dict(made))[key] == value


@pytest.mark.parametrize("key", ["optim.lr", "optim.weight_decay", "optim.clip", "optim.budget", "trainer.memory"])
@pytest.mark.parametrize("text", ["nan", "-1", "-inf"])
def test_numbers_that_make_no_sense_are_refused_before_training_begins(key, text):
    with pytest.raises(UsageError, match=rf"{key} is {float(text)}: use"):
        changed(Settings(), parse_overrides([f"{key}={text}"]))


def test_a_training_leaves_the_levels_of_the_loggers_alone(tmp_path):
    before = [logging.getLogger(name).level for name in LIGHTNING]
    tiny = {"data.train": 128, "data.test": 8, "net.hidden": 8, "optim.steps": 1, "trainer.logger": "none"}
    train(make_settings("autoencoding", preset="quick", overrides=tiny), tmp_path / "run", quiet=True)
    assert [logging.getLogger(name).level for name in LIGHTNING] == before


def test_runs_of_models_that_compute_something_else_today_say_so():
    old = {"model": "slot-attention", "solver": {"name": "nesterov"}}
    with pytest.warns(UserWarning, match="slot-attention was changed in version 0.2.0"):
        read_settings(old, Settings())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_settings(old | {"model": "idspn"}, Settings())
        read_settings({"model": "slot-attention", "solver": "Nesterov"}, Settings())

"""Settings mean the same from Python as from the command line, and a training leaves the process as it was."""

import logging

import pytest

from setpred.training.run import train
from setpred.training.settings import Settings, changed, parse_overrides
from setpred.training.tasks import make_settings

LIGHTNING = ("lightning.pytorch", "lightning.fabric")


@pytest.mark.parametrize("none", [None, "none", "None"])
def test_none_is_a_value_however_it_is_written(none):
    assert changed(Settings(), {"trainer.logger": none}).trainer.logger is None
    assert changed(Settings(), parse_overrides([f"solver.clip={none}"])).solver.clip is None


def test_a_training_leaves_the_levels_of_the_loggers_alone(tmp_path):
    before = [logging.getLogger(name).level for name in LIGHTNING]
    tiny = {"data.train": 128, "data.test": 8, "net.hidden": 8, "optim.steps": 1, "trainer.logger": "none"}
    train(make_settings("autoencoding", preset="quick", overrides=tiny), tmp_path / "run", quiet=True)
    assert [logging.getLogger(name).level for name in LIGHTNING] == before

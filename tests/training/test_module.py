"""Runs are judged with a start for each example: the same numbers whenever, and whatever the batches."""

import pytest
import torch

from setpred.tasks import make_experiment, make_settings
from setpred.training.module import TrainingModule
from setpred.training.trainer import make_trainer

TINY = {"data.train": 8, "data.val": 8, "data.test": 40, "net.hidden": 16, "trainer.logger": None}


def judged(experiment, batch):
    experiment.evaluation_batch = batch
    module = TrainingModule(experiment, experiment.settings)
    (found,) = make_trainer(experiment.settings, None, None, quiet=True).test(module, verbose=False)
    return found


@pytest.mark.parametrize("model", ["idspn", "dspn", "transformer-random-pe"])
def test_metrics_repeat_and_do_not_depend_on_the_batches(model):
    torch.manual_seed(0)
    experiment = make_experiment(make_settings("numbering", model, "quick", overrides=TINY))
    first = judged(experiment, 40)
    torch.manual_seed(1)
    assert judged(experiment, 7) == pytest.approx(first)
    assert judged(experiment, 40) == first


def test_each_example_has_a_start_of_its_own_where_predictions_share_one():
    experiment = make_experiment(make_settings("numbering", "idspn", "quick", overrides=TINY)).eval()
    inputs = experiment.split("test")[0][:1].expand(40, -1, -1)
    with torch.no_grad():
        assert torch.equal(experiment(inputs), experiment(inputs[:1]).expand(40, -1, -1))
    starts = []
    experiment.model.decoder.init.register_forward_hook(lambda _, __, sets: starts.append(sets))
    judged(experiment, 20)
    starts = torch.cat(starts)
    assert len(starts) == 40
    assert torch.pdist(starts.flatten(1)).min() > 0

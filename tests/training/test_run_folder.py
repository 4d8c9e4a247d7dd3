"""A run folder is a saved model: it loads without its task, and predicts without what trains."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from setpred import SetPredictor
from setpred.errors import UsageError
from setpred.tasks import make_settings
from setpred.training.run import train
from setpred.training.run_folder import load_run

OLD = Path(__file__).parents[1] / "tasks" / "old_runs"
TINY = {"data.train": 16, "data.test": 8, "net.hidden": 8, "net.latent": 8, "optim.steps": 2, "trainer.logger": None}
PROBE = """
import sys
from setpred.prediction import load_model, predict

lines = []
predict(load_model(sys.argv[1]), [sys.argv[2]], lines.append)
print(len(lines), sorted({"lightning", "torchmetrics", "omegaconf"} & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    train(make_settings("autoencoding", preset="quick-best", overrides=TINY), folder, quiet=True)
    return folder


def test_a_run_predicts_without_the_libraries_that_trained_it(run, tmp_path):
    (tmp_path / "sets.jsonl").write_text(json.dumps({"set": [[0, 1], [2, 3]]}) + "\n")
    words = [sys.executable, "-c", PROBE, str(run), str(tmp_path / "sets.jsonl")]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert out.split(maxsplit=1) == ["1", "[]\n"]


def test_a_loaded_run_is_the_model_that_was_trained(run):
    _, experiment = load_run(run)
    (sets,) = experiment.split("test")
    loaded = SetPredictor.from_pretrained(run)
    with torch.no_grad():
        assert torch.equal(loaded(sets), experiment.sets((sets,)))


@pytest.mark.parametrize("name", ["auto", "auto-learned"])
def test_runs_of_earlier_versions_are_saved_models_too(name):
    sets = load_run(OLD / name, {"data.test": 4})[1].split("test")[0]
    expected = json.loads((OLD / name / "predicted.json").read_text())
    with torch.no_grad():
        assert torch.allclose(SetPredictor.from_pretrained(OLD / name)(sets), torch.tensor(expected), atol=1e-5)


def test_a_model_that_needs_more_than_its_input_is_refused():
    with pytest.raises(UsageError, match="cannot predict from files"):
        SetPredictor.from_pretrained(OLD / "numbering")


def test_weights_of_another_run_are_refused(run, tmp_path):
    shutil.copytree(run, tmp_path / "mixed")
    shutil.copy(OLD / "auto-learned" / "model.safetensors", tmp_path / "mixed")
    with pytest.raises(UsageError, match="does not fit"):
        SetPredictor.from_pretrained(tmp_path / "mixed")

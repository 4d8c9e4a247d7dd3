"""A new task is one file and one line in the table: every command works with it."""

import json
import sys
import textwrap

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from setpred.cli import app
from setpred.play.server import make_app
from setpred.tasks import TASKS

TASK = '''
"""Two points from the four numbers that they are written in."""

from dataclasses import dataclass, field

import torch

from setpred.encoders import VectorEncoder
from setpred.predictor import SetPredictor
from setpred.schema import Real, Schema
from setpred.tasks.experiment import Predicting
from setpred.tasks.parts import make_decoder
from setpred.tasks.settings import Settings
from setpred.tasks.task import Task

SCHEMA = Schema({"at": Real(2)}, size=2, presence=False)


@dataclass
class PairsData:
    train: int = 64
    test: int = 32


@dataclass
class PairsSettings(Settings):
    task: str = "pairs"
    data: PairsData = field(default_factory=PairsData)


class Pairs(Predicting):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        encoder = VectorEncoder(4, settings.net.hidden, settings.net.latent)
        self.predictor = SetPredictor(encoder, make_decoder(settings, 2, 2), SCHEMA)

    def split(self, name):
        if name == "val":
            return ()
        count = getattr(self.settings.data, name)
        sets = torch.randn(count, 2, 2, generator=torch.Generator().manual_seed(len(name)))
        return sets.flatten(1), sets


TASK = Task(
    PairsSettings,
    Pairs,
    models={"idspn": {}, "dspn": {"adjoint": "Unrolled"}},
    presets={"small": {"net.hidden": 16, "net.latent": 16, "optim.steps": 20, "trainer.logger": None}},
)
'''


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A command line that knows the task `pairs`, in an empty folder."""
    (tmp_path / "pairs_of_points.py").write_text(textwrap.dedent(TASK))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(TASKS, "pairs", "pairs_of_points")
    monkeypatch.chdir(tmp_path)

    def run(*words):
        result = CliRunner().invoke(app, list(words), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    yield run
    sys.modules.pop("pairs_of_points", None)


def test_every_command_works_with_a_task_in_a_file_of_its_own(command, tmp_path):
    assert "loss" in command("train", "pairs", "--out", "run")
    command("train", "pairs", "--out", "other", "--model", "dspn")

    rows = json.loads(command("evaluate", "run", "steps=2,5", "--json"))
    assert rows["2"]["loss"] != rows["5"]["loss"]

    assert "exclusive" in command("check", "run")

    command("report", "run", "other", "--out", "page.html")
    page = (tmp_path / "page.html").read_text()
    for words in ("Pairs, 64 training examples", "each bar is a model", "the worst of 32 test sets"):
        assert words in page

    (tmp_path / "inputs.jsonl").write_text(json.dumps({"vector": [0, 1, 2, 3]}) + "\n")
    (line,) = command("predict", "run", "inputs.jsonl").splitlines()
    assert len(json.loads(line)["objects"]) == 2

    command("export", "run", "--to", "torch")
    assert (tmp_path / "run" / "model.pt2").exists()


def test_the_playground_shows_it(command, tmp_path):
    command("train", "pairs", "--out", "run")
    with TestClient(make_app([tmp_path / "run"])) as client:
        (about,) = client.get("/api/about").json()["runs"]
        assert about["task"] == "pairs"
        state = client.get("/api/runs/0/3", params={"steps": 7}).json()
    assert state["kind"] == "points"
    assert len(state["frames"]) == 8
    assert len(state["target"]) == 2
    exec(state["code"], {})

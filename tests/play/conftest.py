"""Small finished runs of every task."""

import json
import os
import random

import pytest

from setpred.tasks import make_settings
from setpred.training.run import train

TINY = {
    "net.hidden": 16,
    "net.latent": 16,
    "optim.batch": 8,
    "optim.steps": 2,
    "trainer.round": 400,
    "trainer.logger": None,
    "data.train": 16,
    "data.test": 8,
}
# For a picture in the documentation a model should have learned something.
LEARNED = {"data.train": 64_000, "net.hidden": 64, "net.latent": 64, "optim.batch": 64, "optim.steps": 800}
TASKS = {
    "points": (
        "autoencoding",
        {"data.n": 6, "data.d": 2, "data.smallest": 2, **(LEARNED if "SETPRED_SCREENSHOTS" in os.environ else {})},
    ),
    "numbers": ("numbering", {"data.n": 6, "data.val": 8}),
    "scene": ("clevr", {"data.size": 64, "net.width": 4, "solver.steps": 6, "optim.iterations": "2,4"}),
}

WITHOUT_ITERATIONS = {
    "deepsets": ("numbering", TASKS["numbers"][1]),
    "slot-mlp": ("clevr", {"data.size": 64, "net.width": 4}),
}


def write_folder(root):
    """Vectors with as many objects as their first number says."""
    root.mkdir()
    draw = random.Random(0)

    def line(i):
        objects = [
            {"at": [draw.random(), draw.random()], "kind": draw.choice(["cat", "dog"])} for _ in range(1 + i % 3)
        ]
        return json.dumps({"id": i, "vector": [len(objects), draw.random(), 1.0], "objects": objects})

    (root / "train.jsonl").write_text("\n".join(map(line, range(16))))
    (root / "val.jsonl").write_text("\n".join(map(line, range(16, 24))))
    return root


@pytest.fixture(params=WITHOUT_ITERATIONS)
def run_without_iterations(request, tmp_path, monkeypatch):
    monkeypatch.setenv("SETPRED_CACHE", str(tmp_path / "cache"))
    task, changes = WITHOUT_ITERATIONS[request.param]
    train(make_settings(task, request.param, "quick", 0, TINY | changes), tmp_path / "run", quiet=True)
    return tmp_path / "run"


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A run folder for each kind of task, by name."""
    root = tmp_path_factory.mktemp("runs")
    tasks = {**TASKS, "objects": (str(write_folder(root / "data")), {})}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SETPRED_CACHE", str(root / "cache"))
        for name, (task, changes) in tasks.items():
            train(make_settings(task, "idspn", "quick", 0, TINY | changes), root / name, quiet=True)
        yield {name: root / name for name in tasks}

"""Killed at any moment, training and `reproduce` go on and end where they would have ended."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from setpred.training.run_folder import read_config, read_result

TINY = {
    "data.n": 4,
    "data.train": 32,
    "data.test": 16,
    "net.hidden": 16,
    "net.latent": 16,
    "optim.batch": 8,
    "optim.steps": 16,
    "trainer.round": 2,
}
TASKS = {
    "numbering": TINY | {"data.val": 16, "data.augment": True},
    "autoencoding": TINY | {"trainer.logger": None},
}
CELL = ["n=2", "d=2", "steps=10", "model=idspn", "seeds=0-1"]


def lives(**order):
    """What the killed command left, beside what an uninterrupted one did."""
    script = Path(__file__).with_name("killed.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run([sys.executable, script, json.dumps(order)], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def assert_same_run(ours, theirs):
    """Same weights to the bit, same metrics, a row a round, and nothing left lying about."""
    read_config(ours)
    weights, expected = load_file(ours / "model.safetensors"), load_file(theirs / "model.safetensors")
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in weights)
    assert read_result(ours)["metrics"] == read_result(theirs)["metrics"]
    tables = [list(csv.DictReader((run / "metrics.csv").read_text().splitlines())) for run in (ours, theirs)]
    for row, other in zip(*tables, strict=True):
        assert {**row, "seconds": "", "cpu_seconds": ""} == {**other, "seconds": "", "cpu_seconds": ""}
    assert not list(ours.rglob("*.tmp"))


def check_training(task, kills, tmp_path, note):
    report = lives(command="train", task=task, settings=TASKS[task], kills=kills, seed=0, root=str(tmp_path))
    for folder in report["killed"]:
        assert_same_run(Path(folder), Path(report["whole"]))
    for how, count in report["kills"].items():
        note(f"kills of a training, {how}", count)


def test_a_training_killed_a_few_times_ends_as_if_it_had_not_been(tmp_path, note):
    check_training("numbering", 6, tmp_path, note)


@pytest.mark.nightly
@pytest.mark.parametrize("task", TASKS)
def test_a_training_killed_fifty_times_ends_as_if_it_had_not_been(tmp_path, task, note):
    check_training(task, 50, tmp_path, note)


@pytest.mark.nightly
def test_a_reproduction_killed_fifty_times_ends_as_if_it_had_not_been(tmp_path, note):
    words = [*CELL, *(f"{key}={value}" for key, value in TINY.items() if key not in ("data.n",))]
    report = lives(command="reproduce", task="autoencoding", words=words, kills=50, seed=0, root=str(tmp_path))
    runs = [result.parent for result in Path(report["whole"]).rglob("result.json")]
    assert len(runs) == 2
    for folder in report["killed"]:
        for run in runs:
            assert_same_run(Path(folder) / run.relative_to(report["whole"]), run)
    note("kills of reproduce with two runs under way", sum(report["kills"].values()))

"""A run that is killed goes on, and ends exactly where it would have ended."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from safetensors.torch import load_file

from setpred.errors import UsageError
from setpred.tasks import make_settings
from setpred.training.run import train
from setpred.training.run_folder import read_result
from setpred.training.trainer import MetricsTable

TINY = {
    "autoencoding": {"data.train": 256, "data.test": 64, "optim.steps": 24, "trainer.round": 6, "net.hidden": 16},
    "numbering": {"data.train": 64, "data.val": 32, "data.test": 32, "optim.steps": 24, "trainer.round": 6},
}
CHILD = """
import sys
from pathlib import Path
from setpred.training.run import train
from setpred.tasks import make_settings
task, model, out, overrides = sys.argv[1], sys.argv[2], sys.argv[3], eval(sys.argv[4])
train(make_settings(task, model, "quick", 3, overrides), Path(out), resume=True, quiet=True)
"""


@pytest.mark.parametrize(
    ("task", "model", "extra"),
    [
        ("autoencoding", "idspn", {"restart": "Restart", "restart.fraction": 0.2, "solver.settle": True}),
        ("numbering", "idspn", {"data.augment": True}),
        ("numbering", "transformer-random-pe", {}),
    ],
)
def test_a_killed_run_ends_with_the_weights_of_an_uninterrupted_one(tmp_path, task, model, extra):
    overrides = TINY[task] | extra
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(make_settings(task, model, "quick", 3, overrides), whole, quiet=True)

    command = [sys.executable, "-c", CHILD, task, model, str(killed), repr(overrides)]
    child = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 60
    while not (killed / "checkpoints" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert child.poll() is None, "the run ended before it could be killed"
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not (killed / "result.json").exists()

    train(make_settings(task, model, "quick", 3, overrides), killed, resume=True, quiet=True)
    ours, theirs = load_file(killed / "model.safetensors"), load_file(whole / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert read_result(killed)["metrics"] == read_result(whole)["metrics"]
    steps = [row.split(",")[0] for row in (killed / "metrics.csv").read_text().splitlines()]
    assert steps == ["step", "6", "12", "18", "24"]


def test_a_run_out_of_patience_that_is_killed_before_its_result_trains_no_further(tmp_path):
    settings = make_settings("numbering", "deepsets", "quick", 0, TINY["numbering"] | {"trainer.patience": 1})
    first = train(settings, tmp_path, quiet=True)
    assert first["steps"] == 12, "no better after the first round"
    weights, table = (tmp_path / "model.safetensors").read_bytes(), (tmp_path / "metrics.csv").read_text()
    for name in ("result.json", "model.safetensors"):
        (tmp_path / name).unlink()
    assert train(settings, tmp_path, resume=True, quiet=True)["metrics"] == first["metrics"]
    assert (tmp_path / "model.safetensors").read_bytes() == weights
    assert (tmp_path / "metrics.csv").read_text() == table


def test_an_interrupt_is_told_with_the_words_to_go_on(setpred, tmp_path):
    stopped = threading.Event()

    def interrupt():
        while not (tmp_path / "run" / "checkpoints" / "last.ckpt").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        while not stopped.wait(20):  # Python drops one that arrives inside a destructor or a callback of C
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt).start()
        words = [f"{key}={value}" for key, value in (TINY["autoencoding"] | {"optim.steps": 10**6}).items()]
        code, _, errors = setpred("train", "autoencoding", "--preset", "quick", *words, "--out", "run")
    finally:
        stopped.set()
        signal.signal(signal.SIGINT, before)
    assert code == 2
    assert errors.splitlines()[-1] == "setpred: stopped: continue with the same command and --out run --resume"


def test_a_finished_run_is_not_run_again(tmp_path):
    settings = make_settings("autoencoding", "idspn", "quick", 0, TINY["autoencoding"])
    first = train(settings, tmp_path / "run", quiet=True)
    written = (tmp_path / "run" / "result.json").stat().st_mtime_ns
    assert train(settings, tmp_path / "run", resume=True, quiet=True) == first
    assert (tmp_path / "run" / "result.json").stat().st_mtime_ns == written


def test_a_finished_run_without_its_weights_is_not_resumed(tmp_path):
    settings = make_settings("autoencoding", "idspn", "quick", 0, TINY["autoencoding"])
    train(settings, tmp_path / "run", quiet=True)
    (tmp_path / "run" / "model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"model.safetensors is gone, though the run has finished: train it again"):
        train(settings, tmp_path / "run", resume=True, quiet=True)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty: choose another --out"):
        train(make_settings("autoencoding"), tmp_path, quiet=True)


def test_a_run_is_resumed_only_as_it_was_started(tmp_path):
    settings = make_settings("autoencoding", "idspn", "quick", 0, TINY["autoencoding"])
    train(settings, tmp_path / "run", quiet=True)
    other = make_settings("autoencoding", "idspn", "quick", 0, TINY["autoencoding"] | {"data.n": 3})
    with pytest.raises(UsageError, match=r"was started with data.n=4, not 3"):
        train(other, tmp_path / "run", resume=True, quiet=True)


def test_a_damaged_table_of_metrics_is_named(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step\nmany\n")
    with pytest.raises(UsageError, match=r"metrics.csv is damaged: remove it"):
        MetricsTable(path).reopen(6)

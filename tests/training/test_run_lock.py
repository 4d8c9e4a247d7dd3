"""Two trainings never write into the same folder, and a killed one keeps nobody out."""

import json
import os
import signal
import subprocess
import sys

import pytest

from setpred.errors import UsageError
from setpred.tasks import make_settings
from setpred.training import run
from setpred.training.run_lock import LOCK, RunLockedError, locked, refuse_locked

TINY = {
    "data.n": 2,
    "data.d": 2,
    "data.train": 16,
    "data.test": 8,
    "net.hidden": 16,
    "net.latent": 16,
    "optim.batch": 8,
    "optim.steps": 2,
    "trainer.round": 400,
    "trainer.logger": None,
}
HOLD = "import sys, time; from pathlib import Path; from setpred.training.run_lock import locked\n"
HOLD += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"


def settings(seed=0):
    return make_settings("autoencoding", "idspn", "quick", seed, TINY)


def train_while_another(monkeypatch, out, other):
    """Train with seed 0; what `other` does happens after the place was looked at and before anything is written."""
    check = run._check_parts

    def check_and_go_on(*arguments):
        check(*arguments)
        monkeypatch.setattr(run, "_check_parts", check)
        other()

    monkeypatch.setattr(run, "_check_parts", check_and_go_on)
    return run.train(settings(0), out, quiet=True)


def test_of_two_trainings_into_a_new_folder_one_is_refused_and_the_other_is_whole(tmp_path, monkeypatch):
    out = tmp_path / "run"
    with pytest.raises(UsageError, match="another process has just trained into"):
        train_while_another(monkeypatch, out, lambda: run.train(settings(1), out, quiet=True))
    assert json.loads((out / "result.json").read_text())["seed"] == run.read_config(out).seed == 1
    assert not (out / LOCK).exists()


@pytest.mark.parametrize("resume", [False, True])
def test_while_a_folder_is_trained_into_nobody_else_does(tmp_path, setpred, resume):
    out = tmp_path / "run"
    words = [f"{key}={'none' if value is None else value}" for key, value in TINY.items()]
    with locked(out):
        code, _, err = setpred(
            "train", "autoencoding", *words, "--preset", "quick", "--out", "run", *["--resume"][: int(resume)]
        )
    assert code == 2
    wait = f"setpred: run is being trained by process {os.getpid()}: wait for its end, or choose another --out\n"
    assert err == wait
    assert not list(out.iterdir())


def test_the_lock_of_a_killed_process_is_none(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(RunLockedError, match=f"process {holder.pid}"):
                refuse_locked(tmp_path)
        finally:
            holder.send_signal(signal.SIGKILL)
    assert (tmp_path / LOCK).exists()
    assert run.train(settings(), tmp_path, quiet=True)["steps"] == 2


def test_a_lock_that_ends_while_others_wait_for_it_is_given_to_one_of_them(tmp_path):
    code = "import sys, time; from pathlib import Path; from setpred.training.run_lock import RunLockedError, locked\n"
    code += "until, count = time.time() + 1.5, 0\n"
    code += "while time.time() < until:\n"
    code += "    try:\n"
    code += "        with locked(Path(sys.argv[1])):\n"
    code += "            mark = Path(sys.argv[1]) / 'mark'\n"
    code += "            mark.touch(exist_ok=False); mark.unlink(); count += 1\n"
    code += "    except RunLockedError: pass\n"
    code += "print(count)"
    command = [sys.executable, "-c", code, str(tmp_path)]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in several:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert int(out) > 0

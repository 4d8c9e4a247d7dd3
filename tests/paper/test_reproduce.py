"""Runs of a table are trained in processes that nothing can make lose more than a round."""

import csv
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from setpred.errors import UsageError
from setpred.paper.executors import Processes
from setpred.paper.reproduce import make_plan, run_tables
from setpred.paper.scheduler import run_all
from setpred.paper.writers import keep, markdown

CELL = ("n=2", "d=2", "steps=10")
TINY = ("data.train=256", "data.test=64", "net.hidden=16", "net.latent=16", "trainer.round=6")
LONG = 1_000_000


def words(*more, steps):
    return [*CELL, *TINY, f"optim.steps={steps}", *more]


def run_table(*arguments, **options):
    (comparison,) = run_tables(*arguments, **options)
    return comparison


def wait_for(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def child_of(run):
    """The process that trains a run, once it has begun."""
    wait_for(lambda: (run.folder / ".lock").exists() and (run.folder / ".lock").read_text().strip())
    return int((run.folder / ".lock").read_text())


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    asked = words("model=idspn,dspn", "seeds=0", steps=12)
    files = [out / f"table{ending}" for ending in (".md", ".tex", ".csv", ".json")]
    return out, asked, run_table("autoencoding", asked, out, to=files)


def test_ours_stand_beside_the_published(finished):
    _, _, comparison = finished
    assert [(row.cell.model, row.ours, len(row.values)) for row in comparison.rows] == [
        ("idspn+momentum", "idspn", 1),
        ("dspn", "dspn", 1),
    ]
    assert all(0 < row.mean < 10 for row in comparison.rows)
    assert [row.verdict for row in comparison.rows] == ["", ""], "256 examples are not the paper's data"


def test_every_format_says_where_its_numbers_come_from(finished):
    out, _, comparison = finished
    (commit,), (hardware,) = comparison.commits, comparison.hardware
    for ending in (".md", ".tex", ".csv", ".json"):
        text = (out / f"table{ending}").read_text()
        for origin in ("setpred reproduce autoencoding n=2", commit, hardware, "data.train=256"):
            assert origin in text, f"{origin} in {ending}"
    assert "not the published protocol: data.test=64" in markdown(comparison)

    with (out / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    whole = json.loads((out / "table.json").read_text())
    for row, cell, ours in zip(rows, whole["cells"], comparison.rows, strict=True):
        assert float(row["mean"]) == cell["mean"] == ours.mean
        assert cell["runs"][0]["seconds"] > 0
    latex = (out / "table.tex").read_text()
    assert latex.count(r"\\") == 1 + len(rows)
    assert r"6.0e-5 $\pm$ 4e-5" in latex


def test_what_is_finished_is_not_trained_again(finished):
    out, asked, comparison = finished
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    again = run_table("autoencoding", asked, out)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == before
    assert [row.values for row in again.rows] == [row.values for row in comparison.rows]


def test_without_workers_the_cells_that_were_begun_are_compared(finished, tmp_path):
    out, asked, comparison = finished
    wider = [word.replace("model=idspn,dspn", "model=idspn,dspn,idspn-sum") for word in asked]
    there = run_table("autoencoding", wider, out, workers=0)
    assert [row.values for row in there.rows] == [row.values for row in comparison.rows]
    with pytest.raises(UsageError, match="no run of this part is finished"):
        run_table("autoencoding", asked, tmp_path, workers=0)


def test_results_to_commit_hold_the_learning_curves(finished, tmp_path):
    _, _, comparison = finished
    kept = keep(comparison, tmp_path)
    curve = tmp_path / "curves" / "idspn-n2-d2-steps10-seed0.csv"
    assert curve in kept
    assert [row["step"] for row in csv.DictReader(curve.read_text().splitlines())] == ["6", "12"]
    assert sum(path.stat().st_size for path in kept) < 50_000
    assert json.loads((tmp_path / "table.json").read_text())["cells"][0]["runs"][0]["command"].startswith(
        "setpred train"
    )


def test_a_folder_made_with_other_settings_is_not_taken_for_the_cell(finished):
    out, asked, _ = finished
    other = make_plan("autoencoding", asked, out)
    config = other.runs[0].folder / "config.yaml"
    text = config.read_text()
    try:
        config.write_text(text.replace("hidden: 16", "hidden: 32"))
        (row, _) = run_table("autoencoding", asked, out).rows
        assert row.values == ()
        assert "was made with net.hidden=32, not 16" in row.outcomes[0].reason
    finally:
        config.write_text(text)


def test_a_setting_that_is_given_twice_is_swept(tmp_path):
    asked = words("model=idspn", "seeds=0", "optim.lr=1e-3", "optim.lr=3e-4", steps=6)
    first, second = run_tables("autoencoding", asked, tmp_path)
    rates = [run.settings.optim.lr for table in (first, second) for run in table.plan.runs]
    assert rates == [1e-3, 3e-4]
    assert first.rows[0].mean != second.rows[0].mean
    with pytest.raises(UsageError, match=r"2 tables do not fit into one file"):
        run_tables("autoencoding", asked, tmp_path, to=[tmp_path / "table.md"])


def test_nothing_is_trained_when_a_file_to_write_has_no_format(tmp_path):
    with pytest.raises(UsageError, match=r"has no format: end it with \.md, \.tex, \.csv, \.json"):
        run_table("autoencoding", words(steps=LONG), tmp_path / "out", to=[tmp_path / "table.xls"])
    assert not (tmp_path / "out").exists()


def test_a_killed_run_is_reported_the_others_go_on_and_the_next_call_resumes_it(tmp_path):
    plan = make_plan("autoencoding", words("model=idspn", "seeds=0-1", steps=120), tmp_path)
    killed, other = plan.runs

    def kill():
        pid = child_of(killed)
        wait_for((killed.folder / "checkpoints" / "last.ckpt").exists)
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    remarks = run_all(plan.runs, Processes(workers=2))
    thread.join()
    assert remarks == {killed.folder: "was ended by signal 9: the next call goes on from its last round"}
    assert (other.folder / "result.json").exists()
    assert not (killed.folder / "result.json").exists()

    rounds = (killed.folder / "metrics.csv").read_text().splitlines()
    assert run_all(plan.runs, Processes(workers=2)) == {}
    assert (killed.folder / "result.json").exists()
    assert (killed.folder / "metrics.csv").read_text().splitlines()[1:2] == rounds[1:2], (
        "the first round is not repeated"
    )


def test_divergence_is_a_result(tmp_path):
    asked = words("model=idspn", "seeds=0", "optim.lr=1e30", steps=600)
    (row,) = run_table("autoencoding", asked, tmp_path).rows
    assert row.count("failed") == 1
    assert row.outcomes[0].reason.startswith("diverged after step")
    comparison = run_table("autoencoding", asked, tmp_path)
    assert comparison.rows[0].outcomes[0].final, "the same seed would diverge again"
    assert "0 (1 failed)" in markdown(comparison)
    assert row.outcomes[0].reason in markdown(comparison)
    assert comparison.commits
    assert comparison.hardware


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_one_that_started_them_and_nobody_trains_a_run_twice(tmp_path, how):
    asked = words("model=idspn", "seeds=0", steps=LONG)
    runs = make_plan("autoencoding", asked, tmp_path).runs
    code = "import signal, sys; from pathlib import Path; from setpred.paper.reproduce import run_tables; "
    code += "signal.signal(signal.SIGINT, signal.default_int_handler); "  # tests in the background ignore interrupts
    code += "run_tables('autoencoding', sys.argv[2:], Path(sys.argv[1]), workers=2)"
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), *asked], stderr=subprocess.DEVNULL)
    try:
        children = [child_of(run) for run in runs]
        wait_for(lambda: all((run.folder / "checkpoints" / "last.ckpt").exists() for run in runs))
        assert run_all(runs, Processes()) == {run.folder: "is being trained by another process" for run in runs}
        assert all(map(is_running, children))
    finally:
        parent.send_signal(how)
        parent.wait(timeout=30)
    wait_for(lambda: not any(map(is_running, children)), seconds=15)


def test_a_sweep_shows_what_is_finished_and_remarks_stand_with_their_own_table(tmp_path):
    asked = words("model=idspn", "seeds=0", steps=6)
    run_table("autoencoding", [*asked, "optim.lr=0.001"], out=tmp_path, workers=1)
    sweep = [*asked, "optim.lr=0.001", "optim.lr=0.0003"]
    (there,) = run_tables("autoencoding", sweep, tmp_path, workers=0)
    assert there.rows[0].values
    (other,) = make_plan("autoencoding", [*asked, "optim.lr=0.0003"], tmp_path).runs
    other.folder.mkdir(parents=True)
    with (other.folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first, second = run_tables("autoencoding", sweep, tmp_path, workers=1)
    assert first.remarks == ()
    assert second.remarks == (f"{other.name} is being trained by another process",)

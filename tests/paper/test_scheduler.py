"""Runs wait for a place, wherever they are trained, and what a person should know of them is kept."""

import time

import pytest

from setpred.paper.executors import Processes
from setpred.paper.reproduce import make_plan
from setpred.paper.scheduler import run_all
from setpred.paper.trainings import TAKEN, Outcome


class Pretended:
    """Two places; the first run is someone else's, the second is lost, the others finish one at a time."""

    def __init__(self):
        self.begun, self.most, self.running = [], 0, []
        self.cancelled, self.closed = [], False

    def expect(self, runs):
        self.runs = runs

    def places(self):
        return 2

    def start(self, run):
        if run is self.runs[0]:
            return None
        self.begun.append(run)
        self.running.append(len(self.begun))
        self.most = max(self.most, len(self.running))
        return len(self.begun)

    def ended(self, trainings):
        return trainings[:1]

    def outcome(self, training, run):
        self.running.remove(training)
        if training == 1:
            return Outcome(run, "unfinished", reason="was lost")
        return Outcome(run, "finished", {"metrics": {"loss": 1.0}, "seconds": 1.0}, final=True)

    def cancel(self, training):
        self.cancelled.append(training)

    def close(self):
        self.closed = True


@pytest.fixture
def runs(tmp_path):
    return make_plan("autoencoding", ["n=2", "d=2", "steps=10", "model=idspn", "seeds=0-4"], tmp_path).runs


def test_every_run_gets_its_turn_and_remarks_are_of_those_that_did_not_end(runs):
    executor = Pretended()
    assert run_all(runs, executor) == {runs[0].folder: TAKEN, runs[1].folder: "was lost"}
    assert executor.begun == runs[1:]
    assert executor.most == 2
    assert executor.closed


def test_an_interrupt_ends_what_is_running(runs, monkeypatch):
    def interrupted(trainings):
        raise KeyboardInterrupt

    executor = Pretended()
    monkeypatch.setattr(executor, "ended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_all(runs, executor)
    assert executor.cancelled == [1, 2]
    assert executor.closed


def test_processes_share_the_cores_of_a_machine_and_each_gpu_is_given_in_turn(runs, monkeypatch):
    given = []

    def start(run, threads, gpu):
        given.append((threads, gpu))
        return object()

    monkeypatch.setattr("setpred.paper.executors.start", start)
    monkeypatch.setattr("setpred.paper.executors.cores", lambda: 6)
    monkeypatch.setattr("setpred.paper.executors.gpus", lambda: ["0", "3"])
    monkeypatch.setattr("setpred.paper.executors.how_it_ended", lambda run, process: Outcome(run, "unfinished"))
    executor = Processes()
    executor.expect(runs)
    assert executor.places() == 2
    first, _ = executor.start(runs[0]), executor.start(runs[1])
    executor.outcome(first, runs[0])
    executor.start(runs[2])
    assert given == [(3, "0"), (3, "3"), (3, "0")]


def test_when_the_time_is_over_trainings_end_and_no_other_begins(runs):
    class Endless(Pretended):
        def ended(self, trainings):
            time.sleep(0.05)
            return []

    executor = Endless()
    run_all(runs, executor, within=0.2)
    assert len(executor.begun) == 2
    assert executor.cancelled == [1, 2]
    assert executor.closed


def test_when_the_time_is_over_it_is_said_what_goes_on(runs, capsys):
    class Halfway(Pretended):
        def ended(self, trainings):
            if self.begun:
                self.begun[0].folder.mkdir(parents=True, exist_ok=True)
                (self.begun[0].folder / "metrics.csv").write_text("step,seconds,train/loss\n500,1.0,0.5\n")
            time.sleep(0.05)
            return []

    run_all(runs, Halfway(), within=0.2)
    said = capsys.readouterr().err
    assert f"{runs[1].name}: stopped after step 500, goes on from there" in said
    assert f"{runs[2].name}: stopped after step 0, give --within more time than a round takes" in said

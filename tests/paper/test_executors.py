"""Runs on a Ray cluster are the runs of one machine, whatever happens to its workers."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from setpred.errors import UsageError
from setpred.paper.executors import Processes, RayCluster
from setpred.paper.reproduce import make_plan
from setpred.paper.scheduler import run_all
from setpred.training.run_folder import read_result

CELL = ("n=2", "d=2", "steps=10", "model=idspn", "seeds=0-2")
TINY = ("data.train=256", "data.test=64", "net.hidden=16", "net.latent=16", "trainer.round=6", "optim.steps=120")


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for_checkpoints(*runs):
    deadline = time.monotonic() + 200
    while not all((run.folder / "checkpoints" / "last.ckpt").exists() for run in runs):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kill_a_worker(cluster, runs):
    """Kill the Ray worker that looks after the first run, once that has made a checkpoint."""
    wait_for_checkpoints(runs[0])
    os.kill(parent_of(int((runs[0].folder / ".lock").read_text())), signal.SIGKILL)


def kill_a_machine(cluster, runs):
    """Take one of the two nodes away while both train: its run can only go on on the other."""
    wait_for_checkpoints(*runs[:2])
    cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)


@pytest.mark.nightly
@pytest.mark.parametrize("kill", [kill_a_worker, kill_a_machine])
def test_what_dies_is_replaced_and_the_results_are_those_of_one_machine(kill, tmp_path, monkeypatch, note):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="the extra `ray` is not installed")
    cluster = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, "num_gpus": 0}
    )
    cluster.add_node(num_cpus=1, num_gpus=0)
    try:
        here = make_plan("autoencoding", [*CELL, *TINY], tmp_path / "here").runs
        there = make_plan("autoencoding", [*CELL, *TINY], tmp_path / "there").runs
        with ThreadPoolExecutor(1) as executor:
            killing = executor.submit(kill, cluster, there)
            assert run_all(there, RayCluster(cluster.address)) == {}
            killing.result()
    finally:
        cluster.shutdown()
    assert run_all(here, Processes(workers=2)) == {}
    for ours, theirs in zip(here, there, strict=True):
        weights, expected = load_file(theirs.folder / "model.safetensors"), load_file(ours.folder / "model.safetensors")
        assert all(torch.equal(weights[name], expected[name]) for name in expected)
        assert read_result(theirs.folder)["metrics"] == read_result(ours.folder)["metrics"]
    note("runs on a Ray cluster of two nodes", len(there))
    note("Ray workers killed" if kill is kill_a_worker else "Ray nodes killed", 1)


def test_an_address_at_which_no_cluster_is_gets_one_line(tmp_path):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    runs = make_plan("autoencoding", [*CELL, *TINY], tmp_path).runs
    with pytest.raises(UsageError, match=r"^no Ray cluster answers at no:address"):
        run_all(runs, RayCluster("no:address"))
    assert not list(tmp_path.iterdir())

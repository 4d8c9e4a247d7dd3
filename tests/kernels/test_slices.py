"""Kernels and threads: many at once, after a fork, and without touching torch's own setting."""

import os
import signal
import threading
import time

import pytest
import torch

from setpred import SetEncoder
from setpred.kernels import route
from setpred.kernels.fast_gradient import fast_gradient
from setpred.kernels.jit import numba_runs
from setpred.kernels.slices import run_on_cores, slices


def test_every_example_is_in_one_slice():
    for batch in (0, 1, 2, 7, 128):
        covered = [i for part in slices(batch) for i in range(batch)[part]]
        assert covered == list(range(batch))


def test_tasks_use_one_core_each_and_leave_the_rest_of_torch_alone():
    before = torch.get_num_threads()
    assert run_on_cores(lambda _: torch.get_num_threads(), [1, 2, 3]) == [1, 1, 1]
    assert torch.get_num_threads() == before
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [before]


def test_an_error_in_a_task_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        run_on_cores(lambda x: 1 / x, [1, 0])


def test_tasks_may_start_tasks():
    nested = run_on_cores(lambda x: run_on_cores(lambda y: x * y, [1, 2]), [3, 4])
    assert nested == [[3, 6], [4, 8]]


def test_many_threads_at_once():
    encoder = SetEncoder(3, 32, 32, 9)
    sets, z = torch.randn(16, 9, 3), torch.randn(16, 32)
    alone = fast_gradient(encoder, z)(sets)
    wrong = []

    def work():
        for _ in range(20):
            parts = run_on_cores(lambda s: fast_gradient(encoder, z[s])(sets[s]), [slice(0, 5), slice(5, 16)])
            if not torch.allclose(torch.cat([grad for _, grad in parts]), alone[1], atol=1e-6):
                wrong.append(parts)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_kernels_work_in_a_forked_process():
    def work(_):
        return route(torch.ones(4, 5, 16), torch.arange(80.0).view(5, 16)).tolist()

    before = run_on_cores(work, [0, 1])
    child = os.fork()
    if child == 0:
        same = False
        try:
            same = run_on_cores(work, [0, 1]) == before
        finally:
            os._exit(0 if same else 1)
    end = time.monotonic() + 30
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
        time.sleep(0.01)
    if done[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done == (child, 0)


def test_without_compilation_torch_takes_over(monkeypatch):
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    numba_runs.cache_clear()
    try:
        assert fast_gradient(SetEncoder(2, 16, 16, 3), torch.zeros(1, 16)) is None
        routed = route(torch.ones(1, 2, 16), torch.arange(32.0).view(2, 16))
        assert torch.equal(routed, torch.arange(32.0).view(1, 2, 16))
    finally:
        monkeypatch.undo()
        numba_runs.cache_clear()


def test_the_operator_runs_from_many_threads():
    args = torch.randn(8, 12, 48), torch.randn(12, 48)
    expected = route(*args)
    for result in run_on_cores(lambda _: route(*args), list(range(8))):
        assert torch.equal(result, expected)

"""A batch solved in slices, one per core, each core running its own loop from start to end.

Cores that meet only once, at the end, wait less than cores that share every matrix product. Plain threads do it:
the products and the compiled kernels release the interpreter's lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")


WORTH_SHARING = 1 << 16  # numbers of a short kernel; below, waking a second core takes longer than it saves


def slices(batch: int, numbers: int | None = None) -> list[slice]:
    """The batch cut in as many nearly equal slices as torch may use threads.

    With `numbers`, how many a short kernel goes through, a batch that is not worth sharing stays whole.

    >>> threads = torch.get_num_threads()
    >>> len(slices(10 * threads)) == threads
    True
    >>> slices(1)
    [slice(0, 1, None)]
    >>> slices(10 * threads, numbers=100) == [slice(0, 10 * threads)]
    True
    """
    if numbers is not None and numbers < WORTH_SHARING:
        return [slice(0, batch)]
    count = max(1, min(batch, torch.get_num_threads()))
    edges = [batch * i // count for i in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def run_on_cores(task: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """`[task(part) for part in parts]`, each on a thread of its own, inside which torch uses one core.

    Autograd's modes (`no_grad`, `inference_mode`, autocast) do not reach the other threads: the task must set what it
    needs. One part, or a call from within a task, runs where it is called.

    >>> run_on_cores(lambda x: x * x, [1, 2, 3])
    [1, 4, 9]
    """
    if len(parts) <= 1 or getattr(_here, "worker", False):
        return [task(part) for part in parts]
    return list(_pool(len(parts)).map(task, parts))


_here = threading.local()
_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def _pool(size: int) -> ThreadPoolExecutor:
    with _lock:
        if size not in _pools:
            _pools[size] = _start(size)
        return _pools[size]


def _start(size: int) -> ThreadPoolExecutor:
    """Start all the threads of a pool, and leave the number of threads that torch uses elsewhere as it was."""
    threads = torch.get_num_threads()
    ready = threading.Barrier(size + 1)

    def become_worker() -> None:
        _here.worker = True
        torch.get_num_threads()  # the first question in a thread copies the default, which must not happen later
        torch.set_num_threads(1)  # of this thread, and the default of threads that start from now on
        ready.wait()

    pool = ThreadPoolExecutor(size, thread_name_prefix="setpred")
    for _ in range(size):
        pool.submit(become_worker)
    ready.wait()
    torch.set_num_threads(threads)
    return pool


def _forget() -> None:
    """A forked process has none of its parent's threads."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

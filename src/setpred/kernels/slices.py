"""A batch solved in slices, one per core, each core running its own loop from start to end.

Cores that meet only once, at the end, wait less than cores that share every matrix product. Plain threads do it:
the products and the compiled kernels release the interpreter's lock.

Python sees a signal only between two calls of a kernel, so a long call is cut in pieces of a fraction of a second.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")


WORTH_SHARING = 1 << 16  # numbers of a short kernel; below, waking a second core takes longer than it saves

LONG = 1 << 26
"""Numbers of a piece: the slowest kernel takes about a third of a second for them."""


class Abandoned(BaseException):
    """Nobody waits for what this thread computes."""


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
    needs. One part, or a call from within a task, runs where it is called. An interrupt or an error ends the call at
    once, and the other threads at their next piece.

    >>> run_on_cores(lambda x: x * x, [1, 2, 3])
    [1, 4, 9]
    """
    if len(parts) <= 1 or getattr(_here, "worker", False):
        return [task(part) for part in parts]
    given_up = threading.Event()

    def run(part: Part) -> Result:
        _here.given_up = given_up
        go_on()
        return task(part)

    pool = _pool(len(parts))
    futures = [pool.submit(run, part) for part in parts]
    try:
        return [future.result() for future in futures]
    except BaseException:
        given_up.set()
        raise


def pieces(part: slice, numbers: int) -> Iterator[slice]:
    """The part of a batch, cut so that signals are seen between the pieces; an example has so many `numbers`.

    >>> list(pieces(slice(2, 7), numbers=LONG // 2))
    [slice(2, 4, None), slice(4, 6, None), slice(6, 7, None)]
    """
    step = max(1, LONG // max(1, numbers))
    for start in range(part.start, part.stop, step):
        go_on()
        yield slice(start, min(start + step, part.stop))


def go_on() -> None:
    """Raise in a thread whose caller was interrupted."""
    given_up = getattr(_here, "given_up", None)
    if given_up is not None and given_up.is_set():
        raise Abandoned


def run_on_worker(task: Callable[[], Result]) -> Result:
    """`task()` as a task of `run_on_cores` would run, on one core.

    >>> run_on_worker(torch.get_num_threads)
    1
    """
    return task() if getattr(_here, "worker", False) else _pool(1).submit(task).result()


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

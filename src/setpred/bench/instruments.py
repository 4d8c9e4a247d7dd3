"""Time and memory, measured so that they can be compared."""

import statistics
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def interleaved(
    variants: Mapping[str, Callable[[], Any]], seconds: float, wait: Callable[[], Any] | None = None
) -> dict[str, float]:
    """The median time of each variant in milliseconds.

    The variants run in turn until the time is up, so that a noisy machine hurts all alike. `wait` returns when
    a device has finished its work. On one thread the processor's time counts, which other processes do not lengthen.

    >>> sorted(interleaved({"a": lambda: None, "b": lambda: None}, seconds=0.01))
    ['a', 'b']
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    now = clock(wait)
    wait = wait or _nothing
    for variant in variants.values():
        variant()  # compiles and warms the caches
    wait()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 3:
        for name, variant in variants.items():
            started = now()
            variant()
            wait()
            times[name].append(now() - started)
    return {name: 1000 * statistics.median(found) for name, found in times.items()}


def clock(wait: Callable[[], Any] | None = None) -> Callable[[], float]:
    """The processor's time where one thread does everything, else that on the wall."""
    return time.process_time if wait is None and torch.get_num_threads() == 1 else time.perf_counter


def _nothing() -> None:
    """What there is to wait for on a CPU."""


def peak_bytes(work: Callable[[], Any]) -> int:
    """The most bytes that tensors made by `work` occupied at one time.

    Process-wide measures (resident memory) would drown small tensors in the memory of the libraries.

    >>> import torch
    >>> peak_bytes(lambda: torch.zeros(1000).sum())
    4004
    """
    with _PeakMemory() as memory:
        work()
    return memory.peak


class _PeakMemory(TorchDispatchMode):
    """Counts each new storage once, until it is freed."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[int, int] = {}
        self.current = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = {_key(t) for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and _key(tensor) not in known:
                self._count(tensor)
        return result

    def _count(self, tensor: Tensor) -> None:
        storage, key = tensor.untyped_storage(), _key(tensor)
        if key in self.live:
            return
        self.live[key] = storage.nbytes()
        self.current += storage.nbytes()
        self.peak = max(self.peak, self.current)
        weakref.finalize(storage, self._free, key)

    def _free(self, key: int) -> None:
        self.current -= self.live.pop(key)


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata

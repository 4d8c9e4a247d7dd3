"""Peak memory of the tensors that a piece of code makes, to the byte, on any device."""

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_bytes(work: Callable[[], Any]) -> int:
    """The most bytes that tensors made by `work` occupied at one time.

    Process-wide measures (resident memory) would drown small tensors in the memory of the libraries.

    >>> import torch
    >>> peak_bytes(lambda: torch.zeros(1000).sum())
    4004
    """
    with _Tally() as tally:
        work()
    return tally.peak


class _Tally(TorchDispatchMode):
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

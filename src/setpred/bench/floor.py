"""The floor: the matrix products of the inner loop alone, each by the library that is fastest at it on this machine."""

import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

Run = Callable[[], object]
ROUNDS = 5


def by_torch(a: Tensor, b: Tensor, out: Tensor) -> Run:
    """`torch.mm`, which is MKL's where torch was built with it."""
    return partial(torch.mm, a, b, out=out)


def by_onednn(a: Tensor, b: Tensor, out: Tensor) -> Run:
    """oneDNN, which torch brings along and uses for a layer that `torch.compile` has seen."""
    return partial(torch.ops.mkldnn._linear_pointwise.default, a, b.T.contiguous(), None, "none", [], "")


def by_openblas(a: Tensor, b: Tensor, out: Tensor) -> Run:
    """The BLAS of SciPy, usually OpenBLAS: it thinks in columns, so it makes the transposed product."""
    from scipy.linalg.blas import sgemm

    left, right, into = b.contiguous().numpy().T, a.numpy().T, out.numpy().T
    return partial(sgemm, 1.0, left, right, c=into, overwrite_c=1)


LIBRARIES: dict[str, Callable[[Tensor, Tensor, Tensor], Run]] = {
    "torch.mm": by_torch,
    "oneDNN": by_onednn,
    "SciPy's BLAS": by_openblas,
}


def fastest(a: Tensor, b: Tensor) -> tuple[str, Run]:
    """The library that multiplies these two fastest, and what does it; off the CPU there is torch alone."""
    out = a.new_empty(len(a), b.shape[1])
    if a.device.type != "cpu":
        return "torch.mm", by_torch(a, b, out)
    runs: dict[str, Run] = {}
    for name, library in LIBRARIES.items():
        try:
            runs[name] = library(a, b, out)
            runs[name]()
        except (RuntimeError, AttributeError, NotImplementedError):  # not in this build of torch
            runs.pop(name, None)
    times = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            times[name] = min(times[name], time.perf_counter() - started)
    best = min(times, key=times.__getitem__)
    return best, runs[best]


class Floor:
    """The four products of an inner iteration for so many rows, with these weights.

    Attributes:
        libraries: who makes each of them.
    """

    def __init__(self, w1: Tensor, w2: Tensor, rows: int):
        self.w1, self.w2 = w1.detach(), w2.detach()
        sets, hidden = self.w1.new_zeros(rows, self.w1.shape[1]), self.w1.new_zeros(rows, len(self.w1))
        features = self.w1.new_zeros(rows, len(self.w2))
        self.factors = [(sets, self.w1.T), (hidden, self.w2.T), (features, self.w2), (hidden, self.w1)]
        found = [fastest(a, b) for a, b in self.factors]
        self.libraries = [name for name, _ in found]
        self.runs = [run for _, run in found]
        self.mm = [by_torch(a, b, a.new_empty(len(a), b.shape[1])) for a, b in self.factors]

    def best(self, steps: int) -> None:
        """Each by the library that was fastest at it."""
        for _ in range(steps):
            for run in self.runs:
                run()

    def torch(self, steps: int) -> None:
        """All by `torch.mm`."""
        for _ in range(steps):
            for run in self.mm:
                run()

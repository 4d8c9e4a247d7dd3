"""What the rest is measured against: products alone, by the libraries that are fastest at them on this machine."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ..data.clevr import CLEVR_SCHEMA
from ..image_reader import ImageReader
from ..tensors import keep_freed_memory
from ..trunks import has_bfloat16
from .instruments import interleaved

Run = Callable[[], object]
ROUNDS, IN_A_ROW = 5, 4
SIDE = 2_048
"""Of the square matrices whose product says how fast this machine can be."""


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


def fastest(runs: Mapping[str, Run]) -> str:
    """The name of the run that takes the least time with the threads that torch and the libraries have now.

    Each is called several times in a row: the threads of one library slow down the first call of another.
    """
    times = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            run()
            for _ in range(IN_A_ROW):
                started = time.perf_counter()
                run()
                times[name] = min(times[name], time.perf_counter() - started)
    return min(times, key=times.__getitem__)


class Floor:
    """The four products of an inner iteration for so many rows, with these weights.

    The fastest library for each product may not be the fastest for all four in turn, because libraries have threads of
    their own. So a mixture has to be faster than each library alone.

    Attributes:
        libraries: the library of each product.
    """

    def __init__(self, w1: Tensor, w2: Tensor, rows: int):
        self.w1, self.w2 = w1.detach(), w2.detach()
        sets, hidden = self.w1.new_zeros(rows, self.w1.shape[1]), self.w1.new_zeros(rows, len(self.w1))
        features = self.w1.new_zeros(rows, len(self.w2))
        self.factors = [(sets, self.w1.T), (hidden, self.w2.T), (features, self.w2), (hidden, self.w1)]
        runs = _usable(self.factors)
        fastest_of_each = [fastest({name: own[i] for name, own in runs.items()}) for i in range(4)]
        mixtures = {name: [name] * 4 for name in runs} | {"mixed": fastest_of_each}
        chosen = {kind: [runs[name][i] for i, name in enumerate(names)] for kind, names in mixtures.items()}
        best = fastest({kind: partial(run_all, own, 1) for kind, own in chosen.items()})
        self.libraries, self.runs, self.mm = mixtures[best], chosen[best], runs["torch.mm"]

    def best(self, steps: int) -> None:
        """By the fastest libraries."""
        run_all(self.runs, steps)

    def torch(self, steps: int) -> None:
        """By `torch.mm`."""
        run_all(self.mm, steps)


def run_all(runs: Sequence[Run], times: int) -> None:
    for _ in range(times):
        for run in runs:
            run()


def _usable(factors: list[tuple[Tensor, Tensor]]) -> dict[str, list[Run]]:
    """The products by each library that this build of torch has; off the CPU there is torch alone."""
    runs: dict[str, list[Run]] = {}
    on_cpu = factors[0][0].device.type == "cpu"
    for name, library in LIBRARIES.items() if on_cpu else [("torch.mm", by_torch)]:
        try:
            made = [library(a, b, a.new_empty(len(a), b.shape[1])) for a, b in factors]
            run_all(made, 1)
            runs[name] = made
        except (RuntimeError, AttributeError, NotImplementedError):
            continue
    return runs


def image_step(batch: int, seconds: float) -> dict[str, Any]:
    """Images of 192×128 pixels; the products are in bfloat16 where the reader's are."""
    torch.manual_seed(0)
    keep_freed_memory()
    reader = ImageReader(CLEVR_SCHEMA)
    reader.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(reader.parameters(), fused=True)
    images = torch.rand(batch, 3, 128, 192)
    target = torch.rand(batch, CLEVR_SCHEMA.size, CLEVR_SCHEMA.dim)

    def step() -> None:
        optimizer.zero_grad()
        reader.loss(images, target).backward()
        optimizer.step()

    fast = has_bfloat16(images.device)
    matrix = torch.rand(SIDE, SIDE, dtype=torch.bfloat16 if fast else torch.float32)
    with FlopCounterMode(display=False) as counter:
        step()
    ms = interleaved({"step": step, "product": lambda: matrix @ matrix}, seconds)
    floor = ms["product"] * counter.get_total_flops() / (2 * SIDE**3)
    return {
        "batch": batch,
        "bfloat16": fast,
        "step_ms": ms["step"],
        "floor_ms": floor,
        "over_floor": ms["step"] / floor,
        "images_per_second": 1e3 * batch / ms["step"],
    }

"""The two layers of a set encoder, forwards and backwards, with the products that are faster on this machine.

    hidden = relu(Y W₁ᵀ + b₁)    features = hidden W₂ᵀ        back = dF W₂ where hidden > 0    dY = back W₁

`TiledLayers` multiplies in compiled tiles, `TorchLayers` with `torch.mm`. Which is faster depends on the processor and
on what torch was built with, so it is measured once per shape and kept beside the machine code. The file of a choice is
never written twice: all processes of a machine multiply alike and get the same bits. The variable `SETPRED_PRODUCTS`
overrides the choice: `tiles` or `torch`.
"""

from __future__ import annotations

import math
import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..errors import UsageError
from .jit import machine_code_folder
from .slices import run_on_worker

Run = Callable[[], object]


class Layers:
    """What both kinds of layers share: weights as they were when this was made, and how wide their buffers are.

    Attributes:
        rows: rows that are best multiplied at a time.
        tile: their number is best a multiple of this.
        hidden: floats of a row of hidden activations in memory.
        latent: floats of a row of features in memory.
    """

    rows: int
    tile: int
    hidden: int
    latent: int

    def bind(self, y: Tensor, hidden: Tensor, features: Tensor, dy: Tensor) -> tuple[Run, Run]:
        """What writes `hidden` and `features`, and what then writes `dy` for the gradient that stands in `features`.

        The second overwrites `hidden`. All are `[rows, width]` and contiguous.
        """
        raise NotImplementedError


class TiledLayers(Layers):
    """Compiled tiles: equal rows give equal bits. The activations of a block stay in the second-level cache."""

    rows = 128

    def __init__(self, net: nn.Sequential):
        from .tiles import PANEL, ROWS, packed

        self.tile = ROWS
        first, second = linears(net)
        self.w1_t, self.w2_t = packed(first.weight.detach().T), packed(second.weight.detach().T)
        self.w2, self.w1 = packed(second.weight.detach()), packed(first.weight.detach())
        self.hidden, self.latent = len(self.w1_t) * PANEL, len(self.w2_t) * PANEL
        widest = max(len(w) for w in (self.w1_t, self.w2_t, self.w1)) * PANEL
        self.b1, self.zeros, self.ones = padded(first.bias, self.hidden), torch.zeros(widest), torch.ones(widest)

    def bind(self, y: Tensor, hidden: Tensor, features: Tensor, dy: Tensor) -> tuple[Run, Run]:
        from .tiles import PANEL, multiply_rows

        wide = dy if dy.shape[1] == len(self.w1) * PANEL else dy.new_empty(len(dy), len(self.w1) * PANEL)
        zeros, ones, rows = self.zeros.data_ptr(), self.ones.data_ptr(), len(y)
        plain = zeros, -math.inf, ones, 0
        rectified = self.b1.data_ptr(), 0.0, ones, 0
        gated = zeros, -math.inf, hidden.data_ptr(), 4 * hidden.stride(0)

        def product(a: Tensor, w: Tensor, finish: tuple[int, float, int, int], out: Tensor) -> Run:
            return multiply_rows.bind(
                a.data_ptr(),
                4 * a.stride(0),
                w.data_ptr(),
                w.shape[1],
                len(w),
                *finish,
                out.data_ptr(),
                4 * out.stride(0),
                rows,
            )

        in_first, in_second = product(y, self.w1_t, rectified, hidden), product(hidden, self.w2_t, plain, features)
        back_second, back_first = product(features, self.w2, gated, hidden), product(hidden, self.w1, plain, wide)

        held = self, y, hidden, features, wide  # the products know addresses only

        def forward(held: object = held) -> None:
            in_first()
            in_second()

        def backward(held: object = held) -> None:
            back_second()
            back_first()
            if wide is not dy:
                dy.copy_(wide[:, : dy.shape[1]])

        return forward, backward


class TorchLayers(Layers):
    """`torch.mm`, on blocks that are long enough for its library."""

    rows, tile = 1024, 1

    def __init__(self, net: nn.Sequential):
        from .sorting import padded_width

        first, second = linears(net)
        self.hidden, self.latent = padded_width(first.out_features), padded_width(second.out_features)
        self.w1, self.b1 = padded(first.weight, self.hidden, 0), padded(first.bias, self.hidden)
        self.w2 = padded(padded(second.weight, self.hidden), self.latent, 0)

    def bind(self, y: Tensor, hidden: Tensor, features: Tensor, dy: Tensor) -> tuple[Run, Run]:
        from .tiles import bias_relu, relu_gradient

        w1, w1_t, w2, w2_t, mm = self.w1, self.w1.T, self.w2, self.w2.T, torch.mm
        back = torch.empty_like(hidden)
        rectify = bias_relu.bind(hidden.data_ptr(), self.b1.data_ptr(), len(hidden), self.hidden)
        gate = relu_gradient.bind(back.data_ptr(), hidden.data_ptr(), hidden.numel())

        def forward() -> None:
            mm(y, w1_t, out=hidden)
            rectify()
            mm(hidden, w2_t, out=features)

        def backward() -> None:
            mm(features, w2, out=back)
            gate()
            mm(back, w1, out=dy)

        return forward, backward


_KEPT: WeakKeyDictionary[nn.Sequential, tuple[list[Tensor], TiledLayers]] = WeakKeyDictionary()


def tiled(net: nn.Sequential) -> TiledLayers:
    """A network of two layers in tiles, packed again only where the weights have changed.

    They are compared number by number: a change through `.data` leaves no other trace.
    """
    weights = [parameter.detach() for parameter in net.parameters()]
    kept = _KEPT.get(net)
    if kept is None or not all(map(torch.equal, kept[0], weights)):
        _KEPT[net] = kept = [weight.clone() for weight in weights], TiledLayers(net)
    return kept[1]


def linears(net: nn.Sequential) -> tuple[nn.Linear, nn.Linear]:
    """The two linear layers of Linear, ReLU, Linear."""
    first, _, second = cast(list[nn.Linear], net)
    return first, second


def padded(tensor: Tensor, width: int, dim: int = -1) -> Tensor:
    """`tensor`, detached and contiguous, with zeros appended to a dimension."""
    tensor = tensor.detach()
    missing = width - tensor.shape[dim]
    if missing:
        shape = list(tensor.shape)
        shape[dim] = missing
        tensor = torch.cat([tensor, tensor.new_zeros(shape)], dim)
    return tensor.contiguous()


VARIABLE = "SETPRED_PRODUCTS"
KINDS: dict[str, Callable[[nn.Sequential], Layers]] = {"tiles": tiled, "torch": TorchLayers}
MARGIN = 1.1
"""Tiles are given up only for what is clearly faster: they give equal rows equal bits."""
ROUNDS, ROWS = 5, 256


def layers_of(net: nn.Sequential) -> Layers:
    """The layers of a network, of the kind that is faster here, at the precision that torch has now."""
    kind = os.environ.get(VARIABLE)
    if kind and kind not in KINDS:
        raise UsageError(f"{VARIABLE}={kind}: choose one of {', '.join(KINDS)}, or leave it unset to have it measured")
    return KINDS[kind or choice(name_of(net), lambda: measured(net))](net)


def measured(net: nn.Sequential) -> str:
    """The faster kind of layers, by the processor's time for both layers forwards and backwards."""
    y = torch.zeros(ROWS, linears(net)[0].in_features)

    def bound(it: Layers) -> tuple[Run, Run]:
        return it.bind(y, y.new_zeros(ROWS, it.hidden), y.new_zeros(ROWS, it.latent), torch.zeros_like(y))

    runs = {kind: partial(_both, *bound(make(net))) for kind, make in KINDS.items()}
    times = least_times(runs)
    return "torch" if times["tiles"] > MARGIN * times["torch"] else "tiles"


def least_times(runs: Mapping[str, Run]) -> dict[str, float]:
    """The least time of each run on one core, in seconds of the processor, which other processes do not lengthen."""

    def times() -> dict[str, float]:
        least = dict.fromkeys(runs, float("inf"))
        for _ in range(ROUNDS):
            for name, run in runs.items():
                started = time.thread_time()
                run()
                least[name] = min(least[name], time.thread_time() - started)
        return least

    return run_on_worker(times)


def _both(forward: Run, backward: Run) -> None:
    forward()
    backward()


def name_of(net: nn.Sequential, choice: str = "products") -> str:
    """What a choice depends on."""
    import llvmlite.binding

    machine = f"{platform.machine()}-{llvmlite.binding.get_host_cpu_name()}-torch-{torch.__version__}"
    layers = [layer for layer in net if isinstance(layer, nn.Linear)]
    shape = "-".join(str(width) for width in (layers[0].in_features, *(layer.out_features for layer in layers)))
    return f"{choice}-{machine}-{torch.get_float32_matmul_precision()}-{shape}"


_CHOSEN: dict[str, str] = {}


def choice(name: str, measure: Callable[[], str]) -> str:
    """The choice of this name: this process's, else the one on disk, else a new one."""
    if name not in _CHOSEN:
        folder = machine_code_folder(Path(__file__).parent)
        _CHOSEN[name] = _kept(folder / name, measure) if folder else measure()
    return _CHOSEN[name]


def _kept(file: Path, measure: Callable[[], str]) -> str:
    """What a file says; where it is not there, it is made, whole and by one process only."""
    with suppress(OSError):
        return file.read_text(encoding="utf-8")
    chosen = measure()
    with suppress(OSError), tempfile.TemporaryDirectory(dir=file.parent) as folder:
        written = Path(folder) / "choice"
        written.write_text(chosen, encoding="utf-8")
        with suppress(FileExistsError):  # another process was faster, and its word counts
            os.link(written, file)
        chosen = file.read_text(encoding="utf-8")
    return chosen

"""Which way to multiply matrices is faster on this machine: measured once per shape, kept beside the machine code.

The file of a choice is never written twice, so all processes of a machine multiply alike and get the same bits. The
variable `SETPRED_PRODUCTS` overrides it: `tiles` or `torch`.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from ..errors import UsageError
from .jit import machine_code_folder
from .layers import Layers, Run, TorchLayers, linears, tiled
from .slices import run_on_worker

VARIABLE = "SETPRED_PRODUCTS"
WAYS: dict[str, Callable[[nn.Sequential], Layers]] = {"tiles": tiled, "torch": TorchLayers}
MARGIN = 1.1
"""Tiles are given up only for what is clearly faster: they give equal rows equal bits."""
ROUNDS, ROWS = 5, 256


def layers_of(net: nn.Sequential) -> Layers:
    """The layers of a network, multiplied in the way that is faster here, at the precision that torch has now."""
    asked = os.environ.get(VARIABLE)
    if asked and asked not in WAYS:
        raise UsageError(f"{VARIABLE}={asked}: choose one of {', '.join(WAYS)}, or leave it unset to have it measured")
    return WAYS[asked or _choice(_name(net), lambda: measured(net))](net)


def measured(net: nn.Sequential) -> str:
    """The faster way, by the processor's time for both layers forwards and backwards."""
    y = torch.zeros(ROWS, linears(net)[0].in_features)

    def bound(it: Layers) -> tuple[Run, Run]:
        return it.bind(y, y.new_zeros(ROWS, it.hidden), y.new_zeros(ROWS, it.latent), torch.zeros_like(y))

    runs = {way: bound(make(net)) for way, make in WAYS.items()}

    def least_times() -> dict[str, float]:
        times = dict.fromkeys(WAYS, float("inf"))
        for _ in range(ROUNDS):
            for way, (forward, backward) in runs.items():
                started = time.thread_time()
                forward()
                backward()
                times[way] = min(times[way], time.thread_time() - started)
        return times

    times = run_on_worker(least_times)
    return "torch" if times["tiles"] > MARGIN * times["torch"] else "tiles"


def _name(net: nn.Sequential) -> str:
    """What a choice depends on."""
    import llvmlite.binding

    machine = f"{platform.machine()}-{llvmlite.binding.get_host_cpu_name()}-torch-{torch.__version__}"
    first, second = linears(net)
    shape = f"{first.in_features}-{first.out_features}-{second.out_features}"
    return f"products-{machine}-{torch.get_float32_matmul_precision()}-{shape}"


_CHOSEN: dict[str, str] = {}


def _choice(name: str, measure: Callable[[], str]) -> str:
    """The choice of this name: this process's, else the one on disk, else a new one."""
    if name not in _CHOSEN:
        folder = machine_code_folder(Path(__file__).parent)
        _CHOSEN[name] = _kept(folder / name, measure) if folder else measure()
    return _CHOSEN[name]


def _kept(file: Path, measure: Callable[[], str]) -> str:
    """What a file says; where it is not there, it is made, whole and by one process only."""
    with suppress(OSError):
        return file.read_text(encoding="utf-8")
    way = measure()
    with suppress(OSError), tempfile.TemporaryDirectory(dir=file.parent) as folder:
        written = Path(folder) / "choice"
        written.write_text(way, encoding="utf-8")
        with suppress(FileExistsError):  # another process was faster, and its word counts
            os.link(written, file)
        way = file.read_text(encoding="utf-8")
    return way

"""Compiled code: how it is made, where it is kept, and when it may run in place of torch.

Numba keeps machine code on disk and looks only at the file of a function to see whether it is still right. A change in
a file that this one imports would go unseen, so the folder for machine code is named by a hash of all its sources.

Numba itself is imported only where something is compiled, or where a function takes arrays: importing it and preparing
it takes longer than decoding a batch.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..files import cache_folder

# Sums may be taken in any order, several terms at a time.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": ("contract", "reassoc")}

Result = TypeVar("Result")

_locating = threading.Lock()


def compiler_options() -> dict[str, Any]:
    """The options as numba takes them."""
    return {**OPTIONS, "fastmath": set(OPTIONS["fastmath"])}


def compiled(function: Callable[..., Any]) -> Any:
    """A function of arrays as machine code that runs without the interpreter's lock, kept on disk where possible.

    It may use what lies in the folder of its file, and nothing else that could change.
    """
    import numba

    settings: Any = numba.config
    options = compiler_options()
    file = Path(inspect.getfile(function))
    kept = machine_code_folder(file.parent) if file.is_file() and numba_runs() else None
    if kept is not None:
        with _locating:
            usual, settings.CACHE_DIR = settings.CACHE_DIR, str(kept)
            try:
                kernel: Any = numba.njit(function, cache=True, **options)
            finally:
                settings.CACHE_DIR = usual
        if Path(kernel.stats.cache_path).is_relative_to(kept):
            return kernel
    return numba.njit(function, **options)  # compiled again in every process


@cache
def sources_hash(folder: Path) -> str:
    """A hash of the Python files in a folder and of the compiler's options.

    It is taken once: a process goes on with the sources that it has read, whatever happens to the files.
    """
    files = [(file.name, file.read_bytes()) for file in sorted(folder.glob("*.py"))]
    return hashlib.sha1(repr((files, OPTIONS)).encode()).hexdigest()[:16]


@cache
def machine_code_folder(sources: Path) -> Path | None:
    """Where machine code of these sources is kept: beside them, or with the user's caches; None if neither can be."""
    chosen = numba_setting("CACHE_DIR")
    for parent in (lambda: Path(chosen or sources / "__pycache__"), cache_folder):
        try:
            folder = parent() / f"machine-code-{sources_hash(sources)}"
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
        except (OSError, RuntimeError):  # not writable; no home
            continue
    return None


@cache
def numba_runs() -> bool:
    """Whether kernels can be compiled here."""
    return str(numba_setting("DISABLE_JIT") or 0) == "0"


def numba_setting(name: str) -> Any:
    """A setting of numba, which is read from the environment as long as numba itself is not needed."""
    if "numba" not in sys.modules and not Path(".numba_config.yaml").exists():
        return os.environ.get(f"NUMBA_{name}")
    import numba

    return getattr(numba.config, name, None)


def readable(tensors: Iterable[Tensor]) -> bool:
    """Whether these are plain tensors that a kernel can read by their address: float32 on the CPU."""
    return all(
        type(t) in (Tensor, nn.Parameter)
        and t.device.type == "cpu"
        and t.dtype == torch.float32
        and t.layout == torch.strided
        for t in tensors
    )


def transformed() -> bool:
    """Whether something watches or rewrites the operations: a compiler, a function transform, a dispatch mode."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch.autograd.forward_ad._current_level >= 0
    )


def refuse_transforms(what: str, but_vmap: bool = False) -> None:
    """Raise inside the transforms of torch.func, which cannot look into compiled code or an inner optimisation."""
    if torch.compiler.is_compiling():
        return
    outer = torch._C._functorch.get_interpreter_stack() or []
    if any(not (but_vmap and level.key() == torch._C._functorch.TransformType.Vmap) for level in outer):
        raise ValueError(
            f"{what} cannot be inside torch.func's vmap, grad, jacrev and such: pass a batch instead of vmap, and "
            "differentiate with torch.autograd.grad or torch.autograd.functional.jacobian"
        )


def uncompiled(function: Callable[..., Result]) -> Callable[..., Result]:
    """`function` as `torch.compile` leaves it alone: `torch.compiler.disable`, which loads the compiler at once, only
    where something is compiled."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Result:
        if torch.compiler.is_dynamo_compiling():
            return torch.compiler.disable(function)(*arguments, **named)
        return function(*arguments, **named)

    return call


def direct(*tensors: Tensor) -> bool:
    """Whether an operation on these tensors is only a computation: no graph, no tracing, nothing to convert."""
    recorded = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return not recorded and not transformed() and readable(tensors) and numba_runs()

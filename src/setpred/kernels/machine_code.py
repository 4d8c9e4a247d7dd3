"""Kernels: functions of addresses and numbers as machine code, which is loaded without numba.

Importing numba and preparing it takes half a second, loading machine code a millisecond. So numba compiles a kernel
once, the machine code is kept as a file, and a process that finds the files it needs never imports numba.

A kernel neither allocates nor raises. Its arguments are annotated with the names below. The functions and instructions
that it calls become part of it. A kernel finds its arguments at an address, because Python takes longer to hand over
twelve numbers than some kernels take to run.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from ctypes import CFUNCTYPE, create_string_buffer
from functools import cache, cached_property, partial, update_wrapper, wraps
from importlib.metadata import version
from pathlib import Path
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from ..errors import UsageError
from ..files import replacing
from .jit import compiler_options, machine_code_folder, numba_setting

Address = Any
Integer = Any
Float = Any
Double = Any
NUMBERS: dict[str, tuple[str, str, ir.Type]] = {
    "Address": ("int64", "q", ir.IntType(64)),
    "Integer": ("int64", "q", ir.IntType(64)),
    "Float": ("float32", "f4x", ir.FloatType()),
    "Double": ("float64", "d", ir.DoubleType()),
    "None": ("void", "", ir.VoidType()),
}
"""What the annotations mean to numba, to `struct` (eight bytes each) and to LLVM."""

ENTRY = "setpred_kernel"
_making = threading.RLock()


class Kernel:
    """A function as machine code, which is loaded or compiled when it is first needed.

    Attributes:
        was_kept: whether its machine code was on disk; None as long as it was not needed.
    """

    def __init__(self, function: Callable[..., None]):
        update_wrapper(self, function)
        self.function = function
        kinds = [kind for name, kind in function.__annotations__.items() if name != "return"]
        self.numbers = [NUMBERS[kind] for kind in kinds]
        self.layout = struct.Struct("=" + "".join(code for _, code, _ in self.numbers))
        self.was_kept: bool | None = None

    def __call__(self, *arguments: float) -> None:
        self.machine_code(create_string_buffer(self.layout.pack(*arguments)))

    def bind(self, *arguments: float) -> Callable[[], object]:
        """The call with these arguments. Its owner keeps alive what lies at the addresses."""
        return partial(self.machine_code, create_string_buffer(self.layout.pack(*arguments)))

    @cached_property
    def machine_code(self) -> Callable[..., object]:
        with _making:
            folder = machine_code_folder(Path(self.function.__code__.co_filename).parent)
            file = folder and folder / f"{self.function.__module__}.{self.function.__name__}-{_processor()}.code"
            kept = file and _read(file)
            self.was_kept = bool(kept)
            parts = kept or self._compiled()
            if file and not kept:
                _write(file, parts)
            return CFUNCTYPE(None)(_loaded(parts))

    def _compiled(self) -> list[bytes]:
        """What numba makes of the function, and what calls that with the numbers at an address."""
        import numba

        options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False, **compiler_options()}
        signature = tuple(getattr(numba.types, name) for name, _, _ in self.numbers)
        made: Any = numba.njit(_for_numba(self.function), **options)
        made.compile(signature)
        overload = made.overloads[signature]
        _, _, (code, _) = overload.library.serialize_using_object_code()
        return [code, _entry(overload.fndesc.llvm_func_name, [kind for _, _, kind in self.numbers])]


class Instruction:
    """What `emit` writes with a builder of LLVM's code, as a function that kernels call."""

    def __init__(self, emit: Callable[..., Any]):
        self.emit = emit

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.emit.__name__} is an instruction, which only a kernel can call")

    @cached_property
    def for_numba(self) -> Any:
        import numba.extending

        kinds = [kind for kind in self.emit.__annotations__.values() if kind != "Builder"]
        *arguments, returned = (getattr(numba.types, NUMBERS[kind][0]) for kind in kinds)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return self.emit(builder, *values) or context.get_dummy_value()

        typed = wraps(self.emit)(lambda context, *given: (returned(*arguments), generate))
        return numba.extending.intrinsic(typed)


def _for_numba(function: Callable[..., Any]) -> FunctionType:
    """The function with all that it calls as numba knows it, its functions to be written out where they are called."""
    import numba

    known = dict(function.__globals__)
    for name in function.__code__.co_names:
        called = known.get(name)
        if isinstance(called, Instruction):
            known[name] = called.for_numba
        elif isinstance(called, FunctionType):
            known[name] = numba.njit(_for_numba(called), inline="always", **compiler_options())
    return FunctionType(function.__code__, known, function.__name__, function.__defaults__)


def _entry(symbol: str, kinds: list[ir.Type]) -> bytes:
    """A function of an address in machine code. Numba's functions want two more, for a result and for an error."""
    pointer, count = ir.IntType(8).as_pointer(), ir.IntType(64)
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer]), ENTRY)
    called = ir.Function(module, ir.FunctionType(ir.IntType(32), [pointer.as_pointer()] * 2 + kinds), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    unused = [builder.alloca(pointer), builder.alloca(pointer)]
    slots = [builder.gep(function.args[0], [ir.Constant(count, 8 * i)]) for i in range(len(kinds))]
    numbers = [builder.load(builder.bitcast(s, kind.as_pointer())) for s, kind in zip(slots, kinds, strict=True)]
    builder.call(called, [*unused, *numbers])
    builder.ret_void()
    return bytes(_machine().emit_object(llvm.parse_assembly(str(module))))


def _machine() -> llvm.TargetMachine:
    """The compiler for this processor."""
    with suppress(RuntimeError):  # llvmlite before 0.45 needs it, later versions refuse it
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)


def _loaded(parts: list[bytes]) -> int:
    """The address of the entry to machine code, which stays in memory."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    for part in parts:
        engine.add_object_file(llvm.ObjectFileRef.from_data(part))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(ENTRY))


_engines: list[Any] = []


@cache
def _processor() -> str:
    """A hash of what machine code depends on besides its sources."""
    chosen = [numba_setting(name) for name in ("CPU_NAME", "CPU_FEATURES", "OPT")]
    host = llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return hashlib.sha1(repr((version("numba"), version("llvmlite"), *host, *chosen)).encode()).hexdigest()[:16]


def _read(file: Path) -> list[bytes] | None:
    """What `_write` wrote. Damaged machine code would end the process, so it is compared with its hash."""
    with suppress(OSError, ValueError):
        checksum, first, code = file.read_bytes().split(b"\n", 2)
        if hashlib.sha1(first + code).hexdigest().encode() == checksum:
            return [code[: int(first)], code[int(first) :]]
    return None


def _write(file: Path, parts: list[bytes]) -> None:
    """Keep machine code where that is possible."""
    first, code = b"%d" % len(parts[0]), b"".join(parts)
    checksum = hashlib.sha1(first + code).hexdigest().encode()
    with suppress(UsageError), replacing(file) as temporary:
        temporary.write_bytes(b"\n".join([checksum, first, code]))

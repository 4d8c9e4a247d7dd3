"""Machine code on disk is never older than the sources it was made from."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import setpred
from setpred.kernels.jit import compiled, machine_code_folder, sources_hash

PACKAGE = Path(setpred.__file__).parent
RECTIFY = """
import torch
from setpred.kernels.tiles import bias_relu
x, bias = torch.linspace(-1, 1, 16), torch.zeros(16)
bias_relu(x.data_ptr(), bias.data_ptr(), 1, 16)
print(x[0].item(), int(bias_relu.was_kept))
"""
NAME_RENDERS = """
from pathlib import Path
import setpred
from setpred.data.scene_cache import SceneSplit
def name():
    return SceneSplit("scenes", "train", 1, 16)._origin()
before = name()
studio = Path(setpred.__file__).parent / "data/scenes/studio.py"
studio.write_text(studio.read_text() + "# edited while a process renders\\n")
print(before, name())
"""


@pytest.fixture
def copied(tmp_path):
    """A copy of the package without machine code, and a function that runs a script with it in a new process."""
    shutil.copytree(PACKAGE, tmp_path / "setpred", ignore=shutil.ignore_patterns("__pycache__", "models", "static"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)

    def run(script):
        command = [sys.executable, "-c", script]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    return tmp_path / "setpred", run


def test_a_kernel_sees_changes_in_the_files_it_imports(copied):
    package, run = copied
    instructions = package / "kernels/vectors.py"
    source = instructions.read_text()
    changed = source.replace('b.select(b.fcmp_ordered("<=", x, zero), zero, x)', "constant(F32, 7.0)")
    assert changed != source
    assert run(RECTIFY) == ["0.0", "0"]
    instructions.write_text(changed)
    assert run(RECTIFY) == ["7.0", "0"], "compiled again from the new sources"
    instructions.write_text(source)
    assert run(RECTIFY) == ["0.0", "1"], "the same sources find their machine code"


def test_renders_are_kept_under_the_name_of_the_sources_that_made_them(copied):
    _, run = copied
    before, after = run(NAME_RENDERS)
    assert before == after, "a process goes on with the sources that it has read"
    assert run(NAME_RENDERS)[0] != before


def module_with_a_kernel(folder):
    file = folder / "doubling.py"
    file.write_text("from setpred.kernels.jit import compiled\n\n@compiled\ndef double(x):\n    return 2 * x\n")
    spec = importlib.util.spec_from_file_location("doubling", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_machine_code_of_a_folder_that_is_read_only_goes_to_the_users_cache(tmp_path, monkeypatch):
    (tmp_path / "__pycache__").touch()  # nothing can be written into a file, not even by root
    monkeypatch.setenv("SETPRED_CACHE", str(tmp_path / "cache"))
    kernel = module_with_a_kernel(tmp_path).double
    assert kernel(21) == 42
    assert machine_code_folder(tmp_path).parent == tmp_path / "cache"
    assert list((tmp_path / "cache").rglob("doubling*.nbc"))


def test_where_nothing_can_be_kept_kernels_compile_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "__pycache__").touch()
    monkeypatch.setenv("SETPRED_CACHE", str(tmp_path / "__pycache__" / "cache"))
    kernel = module_with_a_kernel(tmp_path).double
    assert kernel(21) == 42
    assert kernel.stats.cache_path is None


def test_a_function_without_a_file_still_compiles():
    namespace = {}
    exec("def double(x): return 2 * x", namespace)
    assert compiled(namespace["double"])(21) == 42


def test_the_compilers_options_are_among_the_sources(tmp_path, monkeypatch):
    (tmp_path / "kernel.py").write_text("")
    before = sources_hash(tmp_path)
    sources_hash.cache_clear()
    monkeypatch.setitem(setpred.kernels.jit.OPTIONS, "fastmath", ())
    assert sources_hash(tmp_path) != before
    sources_hash.cache_clear()


def test_compiled_code_imports_only_what_lies_beside_it():
    """So that the files of its folder are all its sources."""
    files = [file for file in PACKAGE.rglob("*.py") if {"@compiled", "@Kernel"} & set(file.read_text().split())]
    assert {"tiles.py", "render.py"} <= {file.name for file in files}
    seen = set(files)
    while files:
        file = files.pop()
        for line in ast.walk(ast.parse(file.read_text())):
            if not isinstance(line, ast.ImportFrom) or (line.module or "").endswith(("jit", "machine_code")):
                continue  # these make machine code: their options are hashed
            assert line.level <= 1, f"{file} imports {line.module} of another folder"
            assert not (line.module or "").startswith("setpred"), f"{file}: import {line.module} relatively"
            if line.level == 1:
                names = [line.module] if line.module else [alias.name for alias in line.names]
                found = {file.with_name(f"{name}.py") for name in names}
                files += found - seen
                seen |= found

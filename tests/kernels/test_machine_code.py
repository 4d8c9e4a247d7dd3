"""Kernels are compiled once, and loaded from then on without numba, which takes longer to import than they to run."""

import os
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from setpred.kernels import machine_code, steps
from setpred.kernels.machine_code import Kernel
from setpred.kernels.tiles import bias_relu

DECODE = """
import sys
import torch, setpred as sp
encoder = sp.SetEncoder(dim=3, hidden=24, latent=20, size=5)
known = torch.zeros(1, 5, 3), torch.tensor([True, False, False])
for init, constraint in ((sp.LearnedInit(), None), (sp.RandomInit(), sp.PerSlice({(1, 3): sp.Simplex()}))):
    decoder = sp.iDSPN(encoder, init=init, constraint=constraint)
    with torch.no_grad():
        decoder(torch.zeros(1, 20), known=known)
print("numba" in sys.modules)
"""


def rectified(kernel):
    x, bias = torch.linspace(-1, 1, 16), torch.zeros(16)
    kernel(x.data_ptr(), bias.data_ptr(), 1, 16)
    return x.min().item()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A folder for machine code, and a function that makes a kernel as a new process would know it."""
    monkeypatch.setattr(machine_code, "machine_code_folder", lambda sources: tmp_path)
    return tmp_path, lambda: Kernel(bias_relu.function)


def test_a_process_that_finds_its_kernels_does_not_import_numba(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", DECODE]
    said = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [process.stdout.strip() for process in said] == ["True", "False"]


@pytest.mark.parametrize(
    "damage", [lambda code: code[: len(code) // 2], lambda code: b"", lambda code: code[:-1] + b"?"]
)
def test_damaged_machine_code_is_made_again(kept, damage):
    folder, make = kept
    assert rectified(make()) == 0.0
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    kernel = make()
    assert rectified(kernel) == 0.0
    assert not kernel.was_kept
    kernel = make()
    assert rectified(kernel) == 0.0
    assert kernel.was_kept


def test_machine_code_belongs_to_a_processor(kept, monkeypatch):
    folder, make = kept
    assert rectified(make()) == 0.0
    monkeypatch.setattr(machine_code, "_processor", lambda: "another")
    kernel = make()
    assert rectified(kernel) == 0.0
    assert not kernel.was_kept
    assert len(list(folder.iterdir())) == 2


def test_where_nothing_can_be_kept_kernels_run_all_the_same(kept, monkeypatch):
    monkeypatch.setattr(machine_code, "machine_code_folder", lambda sources: None)
    assert rectified(kept[1]()) == 0.0


def test_threads_that_need_a_kernel_at_once_get_it(kept):
    kernel = kept[1]()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(rectified, [kernel] * 4)) == [0.0] * 4


def test_a_kernel_takes_as_many_numbers_as_it_names():
    with pytest.raises(struct.error, match="expected 4 items"):
        bias_relu(0, 0, 0)


def test_instructions_are_for_kernels():
    with pytest.raises(TypeError, match="hide is an instruction"):
        steps.hide_one(0, 0)

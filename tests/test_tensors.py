"""What tensors.py says about memory."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, torch
from setpred.tensors import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(12_000_000)  # more than the C library would keep by itself
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = min(faults() for _ in range(6))
keep_freed_memory()
print(usual, min(faults() for _ in range(6)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other C libraries")
def test_a_freed_tensor_leaves_its_pages_to_the_next():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    usual, kept = map(int, run.stdout.split())
    assert usual > 1_000
    assert kept < 100

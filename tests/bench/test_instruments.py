"""Implicit gradients need the memory of one iteration; unrolled ones that of all."""

import subprocess
import sys
import time

import pytest
import torch

import setpred as sp
from setpred.bench.instruments import interleaved, peak_bytes


def training_step_bytes(decoder_class, steps):
    encoder = sp.SetEncoder(dim=4, hidden=64, latent=64, size=8)
    decoder = decoder_class(encoder, size=8, dim=4, solver=sp.Nesterov(steps=steps))
    z = torch.randn(16, 64, requires_grad=True)
    return peak_bytes(lambda: decoder(z).square().mean().backward())


def test_idspn_needs_no_more_memory_for_a_thousand_iterations_than_for_ten():
    assert training_step_bytes(sp.iDSPN, 1000) <= 1.02 * training_step_bytes(sp.iDSPN, 10)


def test_dspn_memory_grows_linearly():
    ten, twenty, forty = (training_step_bytes(sp.DSPN, steps) for steps in (10, 20, 40))
    assert forty - twenty == pytest.approx(2 * (twenty - ten), rel=0.02)
    assert forty > 3.5 * ten


PEAK_OF_THE_PROCESS = """
import resource
import torch
import setpred as sp

encoder = sp.SetEncoder(dim=8, hidden=256, latent=256, size=16)
decoder = sp.iDSPN(encoder, size=16, dim=8)
z = torch.randn(64, 256, requires_grad=True)
for steps in (10, 10, 1000):
    decoder.solver.steps = steps
    decoder(z).square().mean().backward()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_the_compiled_loop_needs_no_more_memory_either():
    """Counting tensors sends the decoder through autograd; the whole process tells of the compiled loop."""
    done = subprocess.run([sys.executable, "-c", PEAK_OF_THE_PROCESS], capture_output=True, text=True, check=True)
    _, ten, thousand = map(int, done.stdout.split())
    assert thousand <= 1.02 * ten


@pytest.mark.parametrize(("threads", "waits", "counted"), [(1, False, False), (2, False, True), (1, True, True)])
def test_on_one_thread_of_the_processor_only_its_own_time_counts(threads, waits, counted):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ms = interleaved({"sleep": lambda: time.sleep(0.05)}, 0.0, (lambda: None) if waits else None)
    finally:
        torch.set_num_threads(before)
    assert (ms["sleep"] > 40) is counted

"""The floor is made of real products, each by the library that is fastest at it."""

import pytest
import torch

from setpred.bench.cases import CASES, Workload
from setpred.bench.floor import LIBRARIES, Floor, fastest
from setpred.bench.measure import instructions


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_multiplies(library):
    a, b, out = torch.randn(6, 5), torch.randn(7, 5).T, torch.empty(6, 7)
    made = LIBRARIES[library](a, b, out)()
    found = out if made is None or not isinstance(made, torch.Tensor) else made
    torch.testing.assert_close(found, a @ b)


def test_the_fastest_library_is_one_of_them():
    name, run = fastest(torch.randn(64, 32), torch.randn(32, 48))
    assert name in LIBRARIES
    run()


def test_a_floor_has_four_products():
    floor = Floor(torch.randn(16, 3), torch.randn(24, 16), rows=10)
    assert [(a.shape[1], b.shape[1]) for a, b in floor.factors] == [(3, 16), (16, 24), (24, 16), (16, 3)]
    assert len(floor.libraries) == 4


def test_a_workload_lies_on_the_device_that_is_asked_for():
    work = Workload(CASES[5], device="meta")
    work.floor.best(1)
    tensors = (
        work.z,
        work.target,
        work.values,
        work.given,
        *work.encoder.parameters(),
        *work.input_encoder.parameters(),
    )
    assert all(tensor.is_meta for tensor in tensors)
    assert work.floor.libraries == ["torch.mm"] * 4, "the libraries of the CPU are not asked for another device"


def test_the_machine_says_its_instruction_sets():
    assert instructions()

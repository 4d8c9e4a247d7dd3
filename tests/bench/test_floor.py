"""The floor is made of real products, by the libraries that are fastest at them."""

import time

import pytest
import torch

from setpred.bench import floor as floors
from setpred.bench.cases import CASES, Workload
from setpred.bench.floor import LIBRARIES, Floor, fastest
from setpred.bench.measure import inner_loop, instructions


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_multiplies(library):
    a, b, out = torch.randn(6, 5), torch.randn(7, 5).T, torch.empty(6, 7)
    made = LIBRARIES[library](a, b, out)()
    found = out if made is None or not isinstance(made, torch.Tensor) else made
    torch.testing.assert_close(found, a @ b)


def test_what_takes_least_time_is_fastest():
    assert fastest({"slow": lambda: time.sleep(3e-3), "fast": lambda: None}) == "fast"


def library(name, milliseconds, last):
    """A library that takes a millisecond longer where another was called before."""

    def product(a, b, out):
        def run():
            time.sleep(1e-3 * (milliseconds[a.shape[1]] + (last != [name])))
            last[:] = [name]

        return run

    return product


def test_libraries_that_disturb_each_other_are_not_mixed(monkeypatch):
    last = []
    mine = library("torch.mm", {3: 1, 16: 1, 24: 1}, last)
    other = library("other", {3: 0.5, 16: 2, 24: 0.5}, last)
    monkeypatch.setattr(floors, "LIBRARIES", {"torch.mm": mine, "other": other})
    assert Floor(torch.zeros(16, 3), torch.zeros(24, 16), rows=2).libraries == ["torch.mm"] * 4


def work_for_long():
    """It works, because on one thread the time of sleep does not count."""
    end = time.process_time() + 1e-1
    while time.process_time() < end:
        pass


def test_the_floor_is_never_above_that_of_torch():
    work = Workload(CASES[0])
    work.floor.runs, work.floor.libraries = [work_for_long] * 4, ["a slow one"] * 4
    row = inner_loop(work, 1, seconds=0.1)
    assert row["floor_ms"] == row["mm_ms"]
    assert row["libraries"] == ["torch.mm"] * 4


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

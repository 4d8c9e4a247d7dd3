"""Sets of different sizes survive batching: nothing is lost, nothing is invented."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from setpred.padding import collate_sets, pad_sets


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 3))
def test_the_mask_recovers_every_set(counts, extra):
    sets = [torch.randn(count, 3) for count in counts]
    padded, mask = pad_sets(sets, size=max(counts) + extra)
    assert padded.shape == (len(sets), max(counts) + extra, 3)
    for original, row, valid in zip(sets, padded, mask, strict=True):
        assert torch.equal(row[valid], original)
        assert (row[~valid] == 0).all()


def test_without_a_size_the_largest_set_decides():
    padded, mask = pad_sets([torch.zeros(2, 1), torch.zeros(5, 1)])
    assert padded.shape == (2, 5, 1)
    assert mask.dtype == torch.bool


def test_dtype_and_gradient_pass_through():
    element = torch.ones(1, 2, dtype=torch.float64, requires_grad=True)
    padded, _ = pad_sets([element, torch.zeros(3, 2, dtype=torch.float64)])
    padded.sum().backward()
    assert padded.dtype == torch.float64
    assert torch.equal(element.grad, torch.ones(1, 2))


def test_arrays_are_sets_too():
    padded, mask = pad_sets([np.ones((2, 3), dtype=np.float32), np.zeros((0, 3), dtype=np.float32)])
    assert padded.dtype == torch.float32
    assert mask.tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_batches_pairs_of_input_and_set(workers):
    data = [({"image": torch.full((2,), float(i)), "name": str(i)}, torch.ones(i, 3)) for i in range(4)]
    loader = DataLoader(data, batch_size=4, num_workers=workers, collate_fn=partial(collate_sets, size=7))
    inputs, sets, mask = next(iter(loader))
    assert inputs["image"][:, 0].tolist() == [0, 1, 2, 3]
    assert inputs["name"] == ["0", "1", "2", "3"]
    assert sets.shape == (4, 7, 3)
    assert mask.sum(1).tolist() == [0, 1, 2, 3]


ONE = torch.zeros(1, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pad_sets([]), "no sets"),
        (lambda: pad_sets([ONE, torch.zeros(5, 2)], size=4), "set 1 has 5 elements, more than size=4: raise size"),
        (lambda: pad_sets([ONE, torch.zeros(5)]), r"set 1 has shape \[5\]: expected \[elements, dim\]"),
        (lambda: pad_sets([ONE, torch.zeros(1, 3)]), "set 1 has 3 dimensions per element, set 0 has 2"),
        (lambda: pad_sets([ONE, ONE.double()]), "set 1 is torch.float64, set 0 is torch.float32"),
        (lambda: pad_sets([ONE, ONE.to("meta")]), "set 1 is on meta, set 0 on cpu"),
        (lambda: collate_sets([(ONE, ONE), (ONE,)]), r"example 1 of the batch is not an \(input, set\) pair"),
        (lambda: collate_sets([(ONE, ONE), (ONE[:0], ONE)]), r"input 1 has shape \[0, 2\], input 0 has \[1, 2\]"),
    ],
)
def test_wrong_input_gets_one_line(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)

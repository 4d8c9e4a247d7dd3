"""Pooling does not see the order of a set, nor what the mask hides."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from setpred import FSPool, MaxPool, MeanPool, SumPool

POOLS = {
    "fs": lambda channels, size: FSPool(channels, size),
    "sum": lambda channels, size: SumPool(),
    "mean": lambda channels, size: MeanPool(),
    "max": lambda channels, size: MaxPool(),
}
every_pool = pytest.mark.parametrize("make", POOLS.values(), ids=POOLS)


@every_pool
@given(n=st.integers(1, 6), values=st.integers(1, 4), seed=st.integers(0, 999))
def test_the_order_of_a_set_does_not_matter_even_with_equal_elements(make, n, values, seed):
    g = torch.Generator().manual_seed(seed)
    pool = make(5, n).double()
    x = torch.randint(values, (2, n, 5), generator=g).double()
    torch.testing.assert_close(pool(x[:, torch.randperm(n, generator=g)]), pool(x), rtol=0, atol=1e-12)


@every_pool
def test_what_the_mask_hides_never_leaks(make):
    pool = make(3, 6).double()
    x, mask = torch.randn(4, 6, 3, dtype=torch.double), torch.arange(6) < torch.tensor([[0], [1], [4], [6]])
    other = torch.where(mask[..., None], x, torch.inf)
    assert torch.equal(pool(x, mask), pool(other, mask))
    x.requires_grad_()
    pool(x, mask).square().sum().backward()
    assert x.grad[~mask].eq(0).all()


@every_pool
@pytest.mark.parametrize("n", [1, 4])
def test_padding_pools_as_the_shorter_set_does(make, n):
    pool = make(3, 6).double()
    x = torch.randn(2, 6, 3, dtype=torch.double)
    mask = (torch.arange(6) < n).expand(2, 6)
    torch.testing.assert_close(pool(x, mask), pool(x[:, :n]))


@every_pool
def test_an_empty_set_pools_to_zero(make):
    assert make(3, 4)(torch.randn(2, 4, 3), torch.zeros(2, 4, dtype=torch.bool)).eq(0).all()


@every_pool
@pytest.mark.parametrize("masked", [False, True])
def test_gradients(make, masked):
    pool = make(3, 4).double()
    x = torch.randn(2, 4, 3, dtype=torch.double, requires_grad=True)
    mask = torch.tensor([[True, False, True, True], [True, True, True, True]]) if masked else None

    def fn(x, *parameters):
        return pool(x, mask)

    inputs = (x, *pool.parameters())
    assert gradcheck(fn, inputs)
    assert gradgradcheck(fn, inputs)


def test_a_full_mask_means_no_mask():
    pool = FSPool(4, 5)
    x = torch.randn(2, 5, 4)
    torch.testing.assert_close(pool(x, torch.ones(2, 5, dtype=torch.bool)), pool(x))


def test_fspool_weights_are_a_function_of_the_relative_rank():
    pool = FSPool(1, 3)
    with torch.no_grad():
        pool.weight[:] = torch.tensor([[0.0], [1.0], [4.0]])
    assert pool.rank_weights(5).flatten().tolist() == [0.0, 0.5, 1.0, 2.5, 4.0]
    assert pool.rank_weights(2).flatten().tolist() == [0.0, 4.0]
    assert pool.rank_weights(1).flatten().tolist() == [0.0]


def test_fspool_starts_with_variance_one_over_n():
    assert FSPool(100_000, 4).weight.var().item() == pytest.approx(1 / 4, rel=0.02)


def test_fspool_tells_equal_elements_apart_and_sum_does_not():
    x = torch.zeros(1, 3, 2, requires_grad=True)
    (fs,) = torch.autograd.grad(FSPool(2, 3)(x).sum(), x)
    (total,) = torch.autograd.grad(SumPool()(x).sum(), x)
    assert fs[0].unique(dim=0).shape[0] == 3
    assert total[0].unique(dim=0).shape[0] == 1


def test_fspool_refuses_sizes_without_meaning():
    with pytest.raises(ValueError, match="at least one channel and one element"):
        FSPool(4, 0)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 5)])
def test_fspool_refuses_features_of_another_shape(shape):
    with pytest.raises(ValueError, match=r"this pooling takes \[batch, size, 4\]"):
        FSPool(4, 3)(torch.zeros(shape))

"""Between ranks and elements: two backends, one meaning, each map the other's adjoint."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from setpred.kernels import collect, route
from setpred.kernels.sorting import numba_collect, numba_route, torch_collect, torch_route


def problem(batch, n, channels, values, seed, masked=False):
    g = torch.Generator().manual_seed(seed)
    features = torch.randint(values, (batch, n, channels), generator=g).float() - 1.0
    other = torch.randn(batch, n, channels, generator=g)
    mask = torch.rand(batch, n, generator=g) < 0.6 if masked else None
    return features, other, mask


shapes = {"batch": st.integers(0, 4), "n": st.integers(1, 40), "channels": st.integers(1, 40)}
cases = st.fixed_dictionaries(
    {**shapes, "values": st.sampled_from([1, 2, 3, 1000]), "seed": st.integers(0, 999), "masked": st.booleans()}
)


@given(case=cases, shared=st.booleans())
def test_the_compiled_maps_are_the_plain_ones(case, shared):
    features, values, mask = problem(**case)
    weight = values[:1] if shared and len(values) else values
    torch.testing.assert_close(numba_route(features, weight, mask), torch_route(features, weight, mask))
    ours, plain = (backend(features, values, mask, shared) for backend in (numba_collect, torch_collect))
    torch.testing.assert_close(ours, plain)


@given(case=cases)
def test_each_is_the_adjoint_of_the_other(case):
    features, first, mask = problem(**case)
    second = torch.randn_like(first)
    left = (route(features, first, mask) * second).double().sum()
    right = (first * collect(features, second, mask)).double().sum()
    torch.testing.assert_close(left, right, atol=1e-3, rtol=1e-4)


def test_what_is_routed_comes_back():
    features, weight, _ = problem(3, 9, 20, 2, seed=1)
    assert torch.equal(collect(features, route(features, weight)), weight)


@pytest.mark.usefixtures("three_threads")
def test_many_cores_find_what_one_finds():
    features, weight, _ = problem(200, 16, 64, 1000, seed=2)
    torch.testing.assert_close(route(features, weight[0]), torch_route(features, weight[:1], None))
    ours = torch.ops.setpred.collect(features, weight, None, True)
    torch.testing.assert_close(ours, torch_collect(features, weight, None, True), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_both_are_ordinary_operators(dtype, masked, shared):
    features, values, mask = problem(2, 4, 5, 3, seed=0, masked=masked)
    features, values = features.to(dtype), values.to(dtype)
    weight = (values[:1] if shared else values).clone().requires_grad_()
    torch.library.opcheck(torch.ops.setpred.route.default, (features, weight, mask))
    torch.library.opcheck(torch.ops.setpred.collect.default, (features, values.requires_grad_(), mask, shared))


def test_derivatives_of_any_order():
    features, weight, mask = problem(2, 4, 3, 3, seed=0, masked=True)
    weight = weight.double().requires_grad_()
    for fn in (route, collect):
        assert torch.autograd.gradcheck(lambda w: fn(features.double(), w, mask), (weight,))  # noqa: B023
        assert torch.autograd.gradgradcheck(lambda w: fn(features.double(), w, mask).square(), (weight,))  # noqa: B023


def test_compiling_a_pooling_changes_nothing():
    features, weight, mask = problem(2, 6, 8, 3, seed=0, masked=True)
    pooled = torch.compile(lambda f, w: (f * route(f, w, mask)).sum(dim=1), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(pooled(features, weight), (features * route(features, weight, mask)).sum(dim=1))

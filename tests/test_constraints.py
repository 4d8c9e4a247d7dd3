"""Constraints are projections: admissible, idempotent, nearest, differentiable."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from setpred import Ball, Box, NonNegative, PerSlice, Simplex, Sphere

CONSTRAINTS = {
    "simplex": Simplex(),
    "simplex of 3": Simplex(3.0),
    "box": Box(-0.5, 0.25),
    "non-negative": NonNegative(),
    "ball": Ball(0.75),
    "sphere": Sphere(2.0),
    "fields": PerSlice({(0, 3): Simplex(), (3, 4): NonNegative()}),
}
every_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)


@every_constraint
@given(seed=st.integers(0, 9999), scale=st.sampled_from([1e-6, 0.1, 1.0, 30.0]))
def test_a_projection_is_idempotent_and_nearest(constraint, seed, scale):
    g = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(8, 3, 5, generator=g, dtype=torch.double)
    y = constraint(x)
    torch.testing.assert_close(constraint(y), y)
    rival = constraint(y + 0.1 * torch.randn(x.shape, generator=g, dtype=torch.double))
    assert ((x - y).norm(dim=-1) <= (x - rival).norm(dim=-1) + 1e-9).all()


@every_constraint
def test_gradients(constraint):
    x = torch.randn(4, 2, 5, dtype=torch.double, requires_grad=True)
    assert gradcheck(constraint, (x,))
    assert gradgradcheck(constraint, (x,))


@every_constraint
def test_a_polyhedral_jacobian_is_an_orthogonal_projector(constraint):
    x = torch.randn(5, dtype=torch.double)
    jacobian = torch.autograd.functional.jacobian(constraint, x)
    torch.testing.assert_close(jacobian, jacobian.T)
    assert torch.allclose(jacobian @ jacobian, jacobian) == constraint.polyhedral


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_simplex_holds_probabilities(dtype):
    x = 100 * torch.randn(64, 10, 64, dtype=dtype)
    y = Simplex()(x)
    assert (y >= 0).all()
    torch.testing.assert_close(y.sum(-1), torch.ones(64, 10, dtype=dtype))


def test_the_simplex_shares_ties_evenly():
    assert Simplex()(torch.full((4,), 7.0)).tolist() == [0.25] * 4


def test_the_simplex_vjp_is_the_cotangent_less_its_mean_over_the_support():
    x = torch.tensor([0.6, 0.3, -2.0], requires_grad=True)
    v = torch.tensor([1.0, 5.0, 100.0])
    (vjp,) = torch.autograd.grad(Simplex()(x), x, v)
    assert vjp.tolist() == [-2.0, 2.0, 0.0]


def test_the_origin_has_a_place_on_the_sphere():
    assert Sphere()(torch.zeros(3)).tolist() == [1.0, 0.0, 0.0]


def test_fields_leave_the_rest_free():
    x = torch.randn(2, 3, 6)
    y = PerSlice({(1, 3): Simplex()})(x)
    assert torch.equal(y[..., [0, 3, 4, 5]], x[..., [0, 3, 4, 5]])
    torch.testing.assert_close(y[..., 1:3].sum(-1), torch.ones(2, 3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(1.0, 1.0), "Box needs low < high"),
        (lambda: Simplex(0.0), "Simplex: total is 0.0, it must be above 0"),
        (lambda: Ball(-1.0), "Ball: radius is -1.0"),
        (lambda: Sphere(0.0), "Sphere: radius is 0.0"),
        (lambda: PerSlice({(0, 2): Simplex(), (1, 3): Simplex()}), r"slice \(1, 3\) is empty or overlaps"),
        (lambda: PerSlice({(2, 2): Simplex()}), r"slice \(2, 2\) is empty"),
        (lambda: PerSlice({(0, 9): Simplex()})(torch.zeros(2, 5)), "ends past the element, which has 5 numbers"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

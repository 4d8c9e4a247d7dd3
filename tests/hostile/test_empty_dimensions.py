"""Sets without numbers and networks without width are refused in a sentence; no compiled loop sees them."""

import pytest
import torch

import setpred as sp
from setpred.kernels import collect, route
from setpred.kernels.simplex import project_simplex_
from setpred.kernels.steps import nesterov_steps

CONSTRAINTS = {
    "simplex": sp.Simplex(),
    "box": sp.Box(),
    "non-negative": sp.NonNegative(),
    "ball": sp.Ball(),
    "sphere": sp.Sphere(),
    "per slice": sp.PerSlice({(0, 2): sp.Simplex()}),
}
POOLS = {"fs": sp.FSPool(4, 3), "sum": sp.SumPool(), "mean": sp.MeanPool(), "max": sp.MaxPool()}


@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)
@pytest.mark.parametrize("shape", [(2, 0), (0,), (2, 3, 0), (0, 0), ()], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("graph", [False, True])
def test_constraints(constraint, shape, dtype, graph):
    with pytest.raises(ValueError, match="need at least one number"):
        constraint(torch.zeros(shape, dtype=dtype, requires_grad=graph))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_operator_of_the_simplex(dtype):
    with pytest.raises(ValueError, match="at least one number"):
        torch.ops.setpred.project_simplex(torch.zeros(2, 0, dtype=dtype), 1.0)
    with pytest.raises(ValueError, match="at least one number"):
        project_simplex_(torch.zeros(2, 0, dtype=dtype))


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize("shape", [(2, 0, 4), (2, 3, 0), (2, 0, 0), (0,), (), (2, 4)], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_poolings(pool, shape, masked):
    mask = torch.zeros(shape[:2], dtype=torch.bool) if masked else None
    with pytest.raises(ValueError, match=r"at least one element and one channel|takes"):
        pool(torch.zeros(shape), mask)


@pytest.mark.parametrize("shape", [(2, 0, 4), (2, 3, 0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sorting_and_steps(shape, dtype):
    nothing = torch.zeros(shape, dtype=dtype)
    for fn in (route, collect):
        with pytest.raises(ValueError, match="at least one element of one number"):
            fn(nothing, nothing)
    with pytest.raises(ValueError, match=r"at least one element of one number|float32"):
        nesterov_steps(nothing, nothing, nothing, torch.ones(2, dtype=torch.bool), torch.zeros(2), torch.zeros(2))


@pytest.mark.parametrize("fn", [sp.hungarian_loss, sp.chamfer_loss, sp.match])
def test_matching(fn):
    with pytest.raises(ValueError, match="need at least one dimension"):
        fn(torch.zeros(2, 3, 0), torch.zeros(2, 3, 0))


@pytest.mark.parametrize("empty", ["dim", "hidden", "latent", "size"])
@pytest.mark.parametrize("kind", [sp.SetEncoder, sp.RelationEncoder, sp.VectorEncoder])
def test_networks(kind, empty):
    widths = {"dim": 2, "hidden": 4, "latent": 4, "size": 3, empty: 0}
    if kind is sp.VectorEncoder and widths.pop("size") == 0:
        return
    with pytest.raises(ValueError, match=f"{kind.__name__}: {empty} is 0, it must be at least 1"):
        kind(**widths)


@pytest.mark.parametrize("shape", [(0, 4), (0, 3)], ids=str)
def test_a_batch_without_examples_is_no_mistake(shape):
    assert sp.Simplex()(torch.zeros(shape)).shape == shape
    assert sp.FSPool(shape[1], 2)(torch.zeros(0, 2, shape[1])).shape == shape

"""The gradient in plain torch operations is autograd's, on any device and in any type, and never waits for a device."""

import itertools

import pytest
import torch

import setpred as sp
from setpred.descent import Descent
from setpred.kernels.fast_gradient import plain_gradient
from setpred.kernels.plain_gradient import ranks
from setpred.objective import Objective


def problem(pool="fs", masked=False, pulled=False, partly=False, dtype=torch.float64, size=7):
    encoder = sp.SetEncoder(dim=3, hidden=32, latent=16, size=7, pool=pool).to(dtype)
    objective, sets = Objective(encoder, torch.randn(5, 16, dtype=dtype)), torch.randn(5, size, 3, dtype=dtype)
    if masked:
        objective.mask = torch.rand(5, size) > 0.4
        objective.mask[-1:] = False
    if pulled:
        objective.start, objective.weight = torch.randn_like(sets), 0.1
    if partly:
        objective.given = torch.rand_like(sets) < 0.3
        objective.given[0] = True
        objective.values = sets.clone()
    return objective, sets


CASES = [
    {"pool": pool, "masked": masked, "pulled": pulled, "partly": partly}
    for pool, masked, pulled, partly in itertools.product(("fs", "sum", "mean"), *(3 * [(False, True)]))
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("size", [7, 4])
def test_is_the_gradient_of_autograd(case, size):
    objective, sets = problem(**case, size=size)
    loss, grad = objective.gradient(sets.clone().requires_grad_(), graph=True)
    assert objective.compiled is None
    torch.testing.assert_close(objective.plain(sets), (loss.detach(), grad.detach()))
    torch.testing.assert_close(objective.gradient(sets), (loss.detach(), grad.detach()))


@pytest.mark.parametrize("masked", [False, True])
def test_ranks_by_comparison_are_those_of_a_sort(masked, monkeypatch):
    features = torch.randint(-3, 4, (6, 30, 5)).double()  # many ties
    features[0, 3] = -torch.inf
    mask = torch.rand(6, 30) > 0.5 if masked else None
    exist = torch.ones(6, 30, dtype=torch.bool) if mask is None else mask  # the order of what does not is free
    compared = ranks(features, mask)
    monkeypatch.setattr("setpred.kernels.plain_gradient.COMPARED", 1)
    assert torch.equal(compared[exist], ranks(features, mask)[exist])


def test_equal_elements_are_told_apart_as_by_autograd():
    objective, sets = problem()
    sets = sets[:, :1].expand(-1, 7, -1).contiguous()
    _, expected = objective.gradient(sets.clone().requires_grad_(), graph=True)
    torch.testing.assert_close(objective.plain(sets)[1], expected.detach())


def test_padding_that_holds_nan_stays_where_it_is():
    objective, sets = problem(masked=True)
    hidden = ~objective.mask.unsqueeze(-1).expand_as(sets)
    loss, grad = objective.plain(sets.masked_fill(hidden, torch.nan))
    torch.testing.assert_close((loss, grad), objective.plain(sets.masked_fill(hidden, 0.0)))


def test_an_element_that_is_not_a_number_makes_its_own_loss_one_and_no_other():
    objective, sets = problem()
    expected = objective.plain(sets)
    sets[2, 3, 1] = torch.nan
    loss, grad = objective.plain(sets)
    assert loss.isnan().tolist() == [False, False, True, False, False]
    well = [0, 1, 3, 4]
    torch.testing.assert_close((loss[well], grad[well]), (expected[0][well], expected[1][well]))


def test_the_order_of_the_elements_changes_no_bit_of_the_loss():
    objective, sets = problem()
    order = torch.tensor([3, 0, 6, 5, 1, 4, 2])
    assert torch.equal(objective.plain(sets)[0], objective.plain(sets[:, order])[0])


@pytest.mark.parametrize("solver", [sp.Nesterov(steps=9, clip=0.5), sp.GradientDescent(steps=9)])
@pytest.mark.parametrize("constraint", [None, sp.Simplex()])
def test_a_gpu_is_never_waited_for_inside_the_loop(solver, constraint):
    """On torch's device without memory, asking for a value is an error, and so is a tensor that lies elsewhere."""
    objective, sets = problem(pulled=True, partly=True)
    objective.encoder.to("meta")
    for name in ("z", "start", "values", "given"):
        setattr(objective, name, getattr(objective, name).to("meta"))
    descent = Descent(objective, solver, constraint, sets.to("meta"))
    descent.run(9)
    assert objective.plain is not None, "it went through autograd"
    assert descent.t == 9
    assert descent.sets.is_meta
    with pytest.raises(RuntimeError, match="meta"):
        bool(descent.sets.isfinite().all())  # so would every question to the device have been noticed
    with pytest.raises(RuntimeError, match="meta"):
        descent.sets + sets


def test_a_compiler_sees_one_graph():
    objective, sets = problem(pulled=True)
    plain = plain_gradient(objective.encoder, objective.z, None, objective.start, 0.1)
    expected = plain(sets)
    compiled = torch.compile(lambda sets: plain(sets), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(sets), expected)


def test_steps_aside_for_encoders_that_do_more():
    objective, _ = problem()
    objective.encoder.net[1].register_forward_hook(lambda module, inputs, output: 2 * output)
    assert objective.plain is None

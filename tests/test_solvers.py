"""Solvers move a set as they say, and each example by itself."""

import pytest
import torch
from torch import nn

from setpred import (
    DSPN,
    Box,
    GradientDescent,
    LineSearch,
    Nesterov,
    SetDecoder,
    SetEncoder,
    Simplex,
    TorchOptimizer,
)
from setpred.descent import Descent
from setpred.objective import Objective

SOLVERS = {
    "gradient descent": GradientDescent(steps=6, lr=0.5),
    "nesterov": Nesterov(steps=6, lr=0.5, momentum=0.8),
    "clipped": Nesterov(steps=6, lr=0.5, clip=0.05),
    "line search": LineSearch(steps=6, lr=8.0),
    "adam": TorchOptimizer(torch.optim.Adam, steps=6, lr=0.1, betas=(0.5, 0.9)),
    "rmsprop": TorchOptimizer(torch.optim.RMSprop, steps=6, lr=0.01),
}
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


def problem(batch: int = 3) -> Objective:
    encoder = SetEncoder(dim=2, hidden=8, latent=6, size=4).double()
    return Objective(encoder, torch.randn(batch, 6, dtype=torch.double))


def run(objective, solver, start, constraint=None):
    descent = Descent(objective, solver, constraint, start)
    descent.run(solver.steps)
    return descent


@every_solver
def test_the_inner_loss_falls(solver):
    objective, start = problem(), torch.randn(3, 4, 2, dtype=torch.double)
    assert (objective.loss(run(objective, solver, start).sets) < objective.loss(start)).all()


@every_solver
def test_an_example_does_not_depend_on_its_batch(solver):
    objective, start = problem(), torch.randn(3, 4, 2, dtype=torch.double)
    together = run(objective, solver, start).sets
    alone = run(objective.select(torch.tensor([1])), solver, start[1:2]).sets
    torch.testing.assert_close(together[1:2], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("momentum", [0.5, 0.9])
def test_nesterov_is_torch_sgd_with_nesterov(momentum):
    objective, start = problem(), torch.randn(3, 4, 2, dtype=torch.double)
    reference = TorchOptimizer(torch.optim.SGD, steps=7, lr=0.3, momentum=momentum, nesterov=True)
    ours = Nesterov(steps=7, lr=0.3, momentum=momentum)
    torch.testing.assert_close(run(objective, ours, start).sets, run(objective, reference, start).sets)


def test_step_and_momentum_follow_a_schedule():
    objective, start = problem(), torch.randn(3, 4, 2, dtype=torch.double)
    seen = []
    schedule = Nesterov(steps=3, lr=lambda t: seen.append(t) or 0.1 * (t + 1), momentum=lambda t: 0.5 * (t < 1))
    got = run(objective, schedule, start).sets
    velocity, sets = torch.zeros_like(start), start
    for t in range(3):
        grad, momentum = objective.gradient(sets)[1], 0.5 * (t < 1)
        velocity = momentum * velocity + grad
        sets = sets - 0.1 * (t + 1) * (grad + momentum * velocity)
    torch.testing.assert_close(got, sets)
    assert seen == [0, 1, 2]


def test_clipping_shortens_the_gradient_of_the_example_that_needs_it():
    objective, start = problem(2), torch.randn(2, 4, 2, dtype=torch.double)
    grad = objective.gradient(start)[1]
    norms = grad.norm(dim=(1, 2))
    clip = norms.mean().item()
    descent = run(objective, GradientDescent(steps=1, clip=clip), start)
    moved = (descent.sets - start).norm(dim=(1, 2))
    torch.testing.assert_close(moved, norms.clamp(max=clip), rtol=1e-4, atol=0)
    assert descent.clipped.tolist() == (norms > clip).tolist()


class Bowl(nn.Module):
    """A linear encoder, whose inner problem is a well-conditioned quadratic."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([[1.0], [2.0]], dtype=torch.double))

    def forward(self, sets):
        return (sets * self.scale).flatten(1)


def test_a_converged_example_stops_and_the_others_go_on():
    objective = Objective(Bowl(), torch.tensor([[1.0, 2, 3, 4], [0, 0, 0, 0]], dtype=torch.double))
    start = torch.zeros(2, 2, 2, dtype=torch.double)
    start[1] += 1e-9
    descent = run(objective, GradientDescent(steps=10, lr=0.9, tol=1e-6), start)
    assert torch.equal(descent.sets[1], start[1])
    free = run(objective, GradientDescent(steps=10, lr=0.9), start)
    assert torch.equal(descent.sets[0], free.sets[0])


def test_the_loop_ends_once_all_have_converged():
    objective = Objective(Bowl(), torch.ones(2, 4, dtype=torch.double))
    descent = run(objective, GradientDescent(steps=10_000, tol=1e-3), torch.zeros(2, 2, 2, dtype=torch.double))
    assert descent.t < 100
    assert objective.gradient(descent.sets)[1].norm(dim=(1, 2)).max() < 2e-3


def test_at_a_bound_convergence_means_the_projected_gradient():
    objective = Objective(Bowl(), torch.full((1, 4), 5.0, dtype=torch.double))
    descent = run(objective, GradientDescent(steps=10_000, tol=1e-9), torch.zeros(1, 2, 2).double(), Box(-1.0, 1.0))
    assert descent.t < 100
    assert torch.equal(descent.sets, torch.ones_like(descent.sets))


def test_the_constraint_holds_after_every_step():
    decoder = SetDecoder(
        SetEncoder(dim=3, hidden=8, latent=6, size=4), size=4, dim=3, solver=Nesterov(steps=9), constraint=Simplex()
    )
    trace = decoder.solve(torch.randn(2, 6), trace=True).trace
    torch.testing.assert_close(trace.sets.sum(-1), torch.ones(10, 2, 4))
    assert (trace.sets >= 0).all()


class PrecisionSpy(torch.nn.Module):
    """An encoder that notes the precision of matrix products at each of its calls."""

    def __init__(self):
        super().__init__()
        self.linear, self.seen = torch.nn.Linear(2, 4), []

    def forward(self, sets):
        self.seen.append(torch.get_float32_matmul_precision())
        return self.linear(sets).sum(dim=1)


def test_the_last_iterations_and_the_differentiated_one_are_exact():
    encoder = PrecisionSpy()
    decoder = SetDecoder(encoder, size=3, dim=2, solver=Nesterov(steps=6, lr=0.1, exact_steps=2))
    decoder(torch.randn(2, 4, requires_grad=True)).sum().backward()
    assert encoder.seen == ["medium"] * 3 + ["highest"] * 3
    assert torch.get_float32_matmul_precision() == "highest"


def test_an_error_inside_leaves_the_precision_as_it_was():
    def broken(sets):
        raise RuntimeError("broken")

    encoder = PrecisionSpy()
    decoder = SetDecoder(encoder, size=3, dim=2, solver=Nesterov(steps=6, exact_steps=2))
    encoder.forward = broken
    with pytest.raises(RuntimeError, match="broken"):
        decoder(torch.randn(2, 4))
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Nesterov(steps=0), "steps is 0, it must be a whole number from 1 to 1,000,000"),
        (lambda: Nesterov(steps=2.5), "steps is 2.5"),
        (lambda: GradientDescent(eval_steps=-1), "eval_steps is -1"),
        (lambda: GradientDescent(clip=0.0), "clip is 0.0, it must be above 0"),
        (lambda: GradientDescent(tol=-1.0), "tol is -1.0"),
        (lambda: TorchOptimizer(torch.optim.LBFGS), "LBFGS cannot be used here"),
        (lambda: TorchOptimizer(torch.optim.Adafactor, lr=0.1), "Adafactor mixes the examples of a batch"),
        (lambda: TorchOptimizer(torch.optim.Adam, beta=0.9), "Adam cannot be used here: .*beta"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_settling_takes_the_last_step_without_momentum():
    objective, start = problem(), torch.randn(3, 4, 2, dtype=torch.double)
    settling = run(objective, Nesterov(steps=6, settle=True).planned(6), start)
    by_hand = run(objective, Nesterov(steps=6, momentum=lambda t: 0.0 if t == 5 else 0.9), start)
    assert settling.sets.equal(by_hand.sets)
    before = run(objective, Nesterov(steps=5), start).sets
    torch.testing.assert_close(settling.sets, before - objective.gradient(before)[1])


def test_settling_ends_an_oscillation():
    """Under a curvature of 1.3 momentum swings from side to side; a plain step takes seven tenths of the error."""
    encoder = nn.Sequential(nn.Flatten(1), nn.Linear(6, 6, bias=False))
    nn.init.eye_(encoder[1].weight).data.mul_((6 * 1.3) ** 0.5)  # the inner loss is a mean over the 6 entries
    z = torch.randn(64, 6)
    swinging, settled = (
        SetDecoder(encoder, 3, 2, Nesterov(steps=5, settle=settle)).eval().solve(z).loss for settle in (False, True)
    )
    assert (settled < 0.5 * swinging).all()


def test_a_line_search_never_rises_where_a_long_fixed_step_does():
    objective, start = problem(20), torch.randn(20, 4, 2, dtype=torch.double)
    losses = {}
    for solver in (GradientDescent(steps=8, lr=200.0), LineSearch(steps=8, lr=200.0, halvings=30)):
        descent, seen = Descent(objective, solver, None, start), []
        descent.watch = lambda sets, loss, grad, seen=seen: seen.append(loss)
        descent.run(8)
        losses[type(solver)] = torch.stack([*seen, objective.loss(descent.sets)]).detach()
    assert (losses[LineSearch].diff(dim=0) <= 0).all()
    assert (losses[GradientDescent].diff(dim=0) > 0).any()


def test_a_line_search_holds_its_constraint_and_can_be_unrolled():
    encoder = SetEncoder(dim=2, hidden=8, latent=6, size=4).double()
    decoder = DSPN(encoder, solver=LineSearch(steps=3, lr=8.0), constraint=Box(-0.2, 0.2)).double()
    z = torch.randn(3, 6, dtype=torch.double, requires_grad=True)
    sets = decoder(z)
    sets.square().sum().backward()
    assert sets.abs().max() <= 0.2
    assert z.grad.isfinite().all()
    assert z.grad.abs().max() > 0

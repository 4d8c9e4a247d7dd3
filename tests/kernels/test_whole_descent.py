"""A whole descent in compiled code is `Descent.advance` again and again, and it steps aside where it would not be."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from setpred import Box, GradientDescent, Nesterov, PerSlice, SetEncoder, Simplex, TorchOptimizer, ZeroInit, iDSPN
from setpred.constraints import Constraint
from setpred.descent import Descent
from setpred.kernels.whole_descent import EXAMPLEWISE, project_, run_compiled
from setpred.objective import Objective

SOLVERS = {
    "nesterov": Nesterov(lr=0.5, momentum=0.8),
    "schedules": Nesterov(lr=lambda t: 0.5 / (1 + t), momentum=lambda t: 0.1 * t),
    "settling": Nesterov(settle=True).planned(9),
    "clipped": Nesterov(clip=0.05),
    "gradient descent": GradientDescent(lr=0.7),
    "clipped descent": GradientDescent(lr=0.7, clip=0.05),
    "early stop": Nesterov(lr=0.5, tol=0.02),
    "early stop, clipped": GradientDescent(lr=0.5, tol=0.02, clip=0.03),
    "exact end": Nesterov(exact_steps=2),
}
CONSTRAINTS = {
    "free": None,
    "simplex": Simplex(),
    "box": Box(-0.5, 0.5),
    "slices": PerSlice({(0, 2): Simplex(), (2, 3): Box(0.0, 1.0)}),
    "one slice": PerSlice({(1, 3): Simplex()}),
}


def problem(batch=7, size=5, dim=3, known=False, masked=False, pulled=False, classes=False):
    torch.manual_seed(3)
    encoder = SetEncoder(dim, hidden=24, latent=20, size=size)
    objective, start = Objective(encoder, 0.3 * torch.randn(batch, 20)), torch.randn(batch, size, dim)
    if masked:
        objective.mask = torch.rand(batch, size) < 0.7
        objective.values, objective.given = torch.zeros_like(start), ~objective.mask[..., None].expand_as(start)
    if known:
        objective.values = torch.full_like(start, 0.25)
        objective.given = torch.arange(size)[:, None].expand_as(start) < 2
    if classes:
        objective.values = torch.full_like(start, 0.25)
        objective.given = torch.arange(dim).expand_as(start) < 1
    if pulled:
        objective.start, objective.weight = start, 0.1
    return objective, start


def advanced(descent, steps):
    while descent.t < steps and not descent.finished:
        descent.advance(*Objective.gradient(descent.objective, descent.sets))
    return descent


def assert_alike(ours, plain):
    assert ours.t == plain.t
    for name in EXAMPLEWISE:
        found, expected = getattr(ours, name), getattr(plain, name)
        if name == "state" and ours.running is not None and found is not None:  # what has stopped needs no velocity
            found, expected = found[ours.running], expected[ours.running]
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)
@pytest.mark.parametrize(
    "given", [{}, {"known": True}, {"classes": True}, {"masked": True}, {"pulled": True, "known": True}], ids=str
)
def test_it_is_the_plain_loop(solver, constraint, given):
    ours, plain = (Descent(*parts(solver, constraint, given)) for _ in range(2))
    assert run_compiled(ours, 4)
    assert ours.finished or run_compiled(ours, 9)  # goes on where it was
    with torch.no_grad():
        advanced(plain, 9)
    assert_alike(ours, plain)


def parts(solver, constraint, given):
    objective, start = problem(**given)
    return objective, solver, constraint, start


def test_converged_examples_keep_their_bits_and_the_loop_ends_with_the_last_of_them():
    objective, start = problem()
    close = Descent(objective, Nesterov(lr=0.5, tol=0.008), Simplex(), start)
    close.run(10_000)
    assert close.finished
    start[:3] = close.sets[:3]
    descent = Descent(objective, Nesterov(lr=0.5, tol=0.009), Simplex(), start)
    first = descent.sets.clone()
    assert run_compiled(descent, 10_000)
    assert torch.equal(descent.sets[:3], first[:3])
    assert descent.taken[:3].eq(0).all()
    assert descent.taken[3:].gt(0).any()
    assert descent.t < 10_000
    assert descent.finished
    assert not run_compiled(descent, 20_000)


def test_what_a_caller_holds_is_not_written_to():
    objective, start = problem()
    descent = Descent(objective, Nesterov(), None, start)
    held = {name: getattr(descent, name) for name in EXAMPLEWISE if getattr(descent, name) is not None}
    before = {name: value.clone() for name, value in held.items()}
    assert run_compiled(descent, 5)
    assert all(torch.equal(held[name], before[name]) for name in held)


def test_a_diverged_example_leaves_the_others_alone():
    objective, start = problem()
    start[2] = float("nan")
    ours = Descent(objective, Nesterov(clip=0.1), Box(), start)
    assert run_compiled(ours, 5)
    assert ours.sets.isfinite().all(dim=2).all(dim=1).tolist() == [b != 2 for b in range(7)]


class Still(Nesterov):
    def update(self, sets, grad, state, t):
        return sets, state


@dataclass
class Numbered(Nesterov):
    """Its state is a pair."""

    def start(self, sets):
        return super().start(sets), 0

    def update(self, sets, grad, state, t):
        sets, velocity = super().update(sets, grad, state[0], t)
        return sets, (velocity, state[1] + 1)


class SmallState(Nesterov):
    def start(self, sets):
        return sets.new_zeros(1)


def with_own_update():
    solver = GradientDescent()
    solver.update = lambda sets, grad, state, t: (sets, None)
    return solver


ASIDE = {
    "an update of its own": Still(),
    "an update of this one solver": with_own_update(),
    "another kind of state": Numbered(),
    "a state of another shape": SmallState(),
    "an optimiser of torch": TorchOptimizer(torch.optim.Adam, lr=0.1),
}


@pytest.mark.parametrize("solver", ASIDE.values(), ids=ASIDE)
def test_it_steps_aside_for_solvers_it_does_not_know(solver):
    objective, start = problem()
    ours, plain = Descent(objective, solver, None, start), Descent(objective, solver, None, start)
    assert not run_compiled(ours, 6)
    assert ours.t == 0
    ours.run(6)
    with torch.no_grad():
        advanced(plain, 6)
    assert torch.equal(ours.sets, plain.sets)


def test_a_subclass_that_keeps_the_step_is_compiled_all_the_same():
    class Patient(Nesterov):
        """Nesterov's method under another name."""

    objective, start = problem()
    assert run_compiled(Descent(objective, Patient(), None, start), 3)


def test_it_steps_aside_for_a_watch():
    objective, start = problem()
    descent, seen = Descent(objective, Nesterov(), None, start), []
    descent.watch = lambda sets, loss, grad: seen.append(sets)
    assert not run_compiled(descent, 4)
    descent.run(4)
    assert len(seen) == 4


def test_it_steps_aside_where_the_gradient_is_not_compiled():
    objective, start = problem()
    objective.encoder = nn.Sequential(nn.Flatten(1), nn.Linear(15, 20))
    assert not run_compiled(Descent(objective, Nesterov(), None, start), 4)


def test_it_steps_aside_where_no_step_is_left():
    objective, start = problem()
    assert not run_compiled(Descent(objective, Nesterov(), None, start), 0)


class Still(Nesterov):
    def update(self, sets, grad, state, t):
        return sets, state


class Half(Simplex):
    def __call__(self, sets):
        return 0.5 * super().__call__(sets)


class Low(PerSlice):
    def __call__(self, sets):
        return super().__call__(sets).clamp(max=0.2)


class Turned(Constraint):
    def __call__(self, sets):
        return sets.mT.contiguous().clamp(-1, 1).mT


@pytest.mark.parametrize("constraint", [*list(CONSTRAINTS.values())[1:], Half(), Low({(0, 2): Simplex()}), Turned()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_projecting_in_place_is_the_constraint(constraint, dtype):
    sets = torch.randn(4, 5, 3, dtype=dtype)
    expected = constraint(sets)
    project_(constraint, sets)
    torch.testing.assert_close(sets, expected)


@pytest.mark.parametrize(
    ("parts", "holds"),
    [
        ({"solver": Still(steps=3), "init": ZeroInit()}, lambda sets: sets.eq(0).all()),
        ({"constraint": Half()}, lambda sets: torch.allclose(sets.sum(-1), torch.tensor(0.5))),
        ({"constraint": Low({(0, 2): Simplex()})}, lambda sets: sets.max() <= 0.2),
        ({"constraint": Turned()}, lambda sets: sets.abs().max() <= 1),
    ],
    ids=["solver", "simplex", "fields", "not contiguous"],
)
def test_what_a_subclass_changes_holds_in_the_compiled_loop_too(parts, holds):
    decoder = iDSPN(SetEncoder(2, 16, 8, 3), size=3, dim=2, **parts).eval()
    z = torch.randn(5, 8)
    with torch.no_grad():
        sets = decoder(z)
    assert holds(sets)
    torch.testing.assert_close(sets, decoder.solve(z, trace=True).sets)


def test_threads_that_use_coarse_products_leave_the_precision_as_it_was():
    decoder = iDSPN(SetEncoder(2, 16, 8, 3), size=3, dim=2, solver=Nesterov(steps=6, exact_steps=2)).eval()
    before, z = torch.get_float32_matmul_precision(), torch.randn(2, 8)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: decoder.solve(z), range(80)))
    assert torch.get_float32_matmul_precision() == before

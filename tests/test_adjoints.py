"""Adjoints against the truth: dense linear algebra and plain autograd."""

import pytest
import torch
from torch import nn

from setpred import (
    Ball,
    Box,
    ConjugateGradient,
    Identity,
    LearnedInit,
    Nesterov,
    NonNegative,
    RandomInit,
    SetDecoder,
    SetEncoder,
    Simplex,
    Sphere,
    TorchOptimizer,
    Unrolled,
)
from setpred.adjoints import minimal_residual
from setpred.objective import Objective

SIZE, DIM, LATENT = 3, 2, 10


class SmoothEncoder(nn.Module):
    """A smooth encoder whose inner problem is strongly convex near its solution: solvers really converge."""

    def __init__(self, dim: int = DIM):
        super().__init__()
        self.first = nn.Linear(SIZE * dim, LATENT)
        self.second = nn.Linear(LATENT, LATENT)

    def forward(self, sets):
        x = self.first(sets.flatten(1))
        return 3 * x + 0.3 * torch.tanh(self.second(x))


def smooth_decoder(adjoint, constraint=None, init=None, steps=4000, dim=DIM):
    encoder = SmoothEncoder(dim).double()
    momentum = 0.7 if constraint is None else 0.0  # on the curved sphere momentum circles the solution
    solver = Nesterov(steps=steps, momentum=momentum, tol=1e-13)
    decoder = SetDecoder(encoder, SIZE, dim, solver, init or RandomInit(), constraint, adjoint).double()
    return decoder.eval()


def gradients(decoder, z, v, known=None):
    """VJP of the decoded sets by z and every parameter."""
    decoder.zero_grad()
    inputs = [z, *[p for p in decoder.parameters() if p.requires_grad]]
    if known is not None and known[0].requires_grad:
        inputs.append(known[0])
    return torch.autograd.grad((decoder(z, known=known) * v).sum(), inputs, allow_unused=True)


def dense_implicit(decoder, z, v, gamma=None, constraint=None, given=None):
    """The same from the implicit function theorem with dense matrices, one example at a time."""
    parameters = [p for p in decoder.parameters() if p.requires_grad]
    solution = decoder.solve(z).sets.detach()
    total = [torch.zeros_like(t) for t in (z, *parameters)]
    for b in range(len(z)):
        problem = Objective(decoder.encoder, z[b : b + 1], weight=decoder.init.weight)
        if decoder.init.weight:
            problem.start = decoder.init(1, z)
        n = solution[b].numel()

        def flat_gradient(y, problem=problem, b=b):
            sets = y.view(1, *solution[b].shape)
            (grad,) = torch.autograd.grad(problem.loss(sets).sum(), sets, create_graph=True)
            return grad.flatten()

        y = solution[b].flatten().clone().requires_grad_()
        H = torch.stack([torch.autograd.grad(g, y, retain_graph=True)[0] for g in flat_gradient(y)])
        if gamma is not None:
            H = H / gamma + torch.eye(n, dtype=H.dtype)
        grad = flat_gradient(y)
        D = torch.eye(n, dtype=H.dtype)
        if constraint is not None:
            target = (y - grad).detach().view(solution[b].shape)
            D = torch.autograd.functional.jacobian(constraint, target).reshape(n, n)
        if given is not None:
            free = (~given[b].flatten()).to(D.dtype)
            D = free[:, None] * D * free
        A = torch.eye(n, dtype=H.dtype) - D + D @ H
        w = torch.linalg.solve(A.T, v[b].flatten())
        found = torch.autograd.grad(grad, (z, *parameters), -(D.T @ w), allow_unused=True)
        total = [t if g is None else t + g for t, g in zip(total, found, strict=True)]
    return total


def assert_same(ours, truth, **tolerance):
    for a, b in zip(ours, truth, strict=True):
        torch.testing.assert_close(torch.zeros_like(b) if a is None else a, b, **tolerance)


CONSTRAINTS = {
    "free": None,
    "simplex": Simplex(),
    "box": Box(-0.3, 0.3),
    "non-negative": NonNegative(),
    "ball": Ball(0.4),
    "sphere": Sphere(),
}


@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)
@pytest.mark.parametrize("gamma", [None, 2.0])
@pytest.mark.parametrize("init", [RandomInit(), LearnedInit(weight=0.1)], ids=["random start", "learned start"])
def test_conjugate_gradient_is_the_implicit_function_theorem(constraint, gamma, init):
    decoder = smooth_decoder(ConjugateGradient(steps=60, gamma=gamma), constraint, init)
    z, v = torch.randn(4, LATENT).double().requires_grad_(), torch.randn(4, SIZE, DIM).double()
    assert_same(gradients(decoder, z, v), dense_implicit(decoder, z, v, gamma, constraint), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("constraint", [None, Simplex(), Box(-0.3, 0.3), Ball(0.4)], ids=str)
def test_conjugate_gradient_with_known_entries(constraint):
    decoder = smooth_decoder(ConjugateGradient(steps=60, gamma=None), constraint)
    z, v = torch.randn(4, LATENT).double().requires_grad_(), torch.randn(4, SIZE, DIM).double()
    values, given = torch.randn(4, SIZE, DIM).double(), torch.rand(4, SIZE, DIM) < 0.4
    if isinstance(constraint, Simplex | Ball):  # these can hold whole elements only
        given = given[..., :1].expand(4, SIZE, DIM)
    known = (values, given)
    decoder.solve = lambda z: SetDecoder.solve(decoder, z, known=known)  # the dense truth starts from the solution
    truth = dense_implicit(decoder, z, v, constraint=constraint, given=given)
    assert_same(gradients(decoder, z, v, known), truth, rtol=1e-6, atol=1e-6)


def test_the_truth_itself_agrees_with_finite_differences():
    decoder = smooth_decoder(ConjugateGradient(steps=60, gamma=None))
    z = torch.randn(2, LATENT).double().requires_grad_()
    assert torch.autograd.gradcheck(decoder, (z,), atol=1e-6)


def test_known_values_get_their_own_gradient_and_move_the_rest():
    decoder = smooth_decoder(ConjugateGradient(steps=60, gamma=None))
    z, given = torch.randn(2, LATENT).double(), torch.rand(2, SIZE, DIM) < 0.4
    values = torch.randn(2, SIZE, DIM).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda values: decoder(z, known=(values, given)), (values,), atol=1e-6)


@pytest.mark.parametrize("constraint", [None, Simplex()], ids=["free", "simplex"])
def test_a_large_gamma_approaches_identity(constraint):
    z, v = torch.randn(4, LATENT).double().requires_grad_(), torch.randn(4, SIZE, DIM).double()
    decoder = smooth_decoder(ConjugateGradient(steps=60, gamma=1e9), constraint)
    damped = gradients(decoder, z, v)
    decoder.adjoint = Identity()
    assert_same(damped, gradients(decoder, z, v), rtol=1e-6, atol=1e-7)


def fspool_decoder(adjoint, constraint=None, init=None, solver=None):
    encoder = SetEncoder(dim=3, hidden=16, latent=12, size=4).double()
    solver = solver or Nesterov(steps=5, clip=0.2)
    return SetDecoder(encoder, 4, 3, solver, init or RandomInit(), constraint, adjoint).double().eval()


@pytest.mark.parametrize("constraint", [None, Simplex()], ids=["free", "simplex"])
@pytest.mark.parametrize("known", [False, True], ids=["all free", "known parts"])
@pytest.mark.parametrize("init", [RandomInit(), LearnedInit()], ids=["random start", "learned start"])
def test_identity_is_one_gradient_step_at_the_last_iterate_but_one(constraint, known, init):
    """The differentiated gradient is the raw one: no clip, no momentum, no step size."""
    decoder = fspool_decoder(Identity(), constraint, init)
    z, v = torch.randn(2, 12).double().requires_grad_(), torch.randn(2, 4, 3).double()
    values = torch.rand(2, 4, 3).double().requires_grad_()
    given = torch.zeros(2, 4, 3, dtype=torch.bool)
    given[:, :2] = known
    ours = gradients(decoder, z, v, (values, given) if known else None)

    point = decoder.solve(z, known=(values, given), steps=4).sets.detach()
    problem = Objective(decoder.encoder, z, None, None, decoder.init.weight, values, given)
    if decoder.init.weight:
        problem.start = decoder.init(2, z)
    moved = point - problem.gradient(point.requires_grad_(), graph=True)[1]
    stepped = torch.where(given, values, moved if constraint is None else constraint(moved))
    inputs = [z, *decoder.parameters(), *([values] if known else [])]
    assert_same(ours, torch.autograd.grad((stepped * v).sum(), inputs), rtol=0, atol=1e-12)


def test_straight_identity_is_the_one_without_the_constraint():
    decoder = fspool_decoder(Identity(straight=True), Simplex())
    z, v = torch.randn(2, 12).double().requires_grad_(), torch.randn(2, 4, 3).double()
    ours = gradients(decoder, z, v)
    point = decoder.solve(z, steps=4).sets.detach().requires_grad_()
    step = -Objective(decoder.encoder, z).gradient(point, graph=True)[1]
    assert_same(ours, torch.autograd.grad((step * v).sum(), [z, *decoder.parameters()]), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("straight", "learns"), [(False, False), (True, True)])
def test_what_rests_at_a_corner_of_the_simplex_learns_only_if_gradients_go_straight(straight, learns):
    corners = torch.eye(3)[[0, 1, 2, 0]].expand(2, 4, 3)
    decoder = SetDecoder(nn.Flatten(1), 4, 3, constraint=Simplex(), adjoint=Identity(straight))
    z = (2 * corners).flatten(1).requires_grad_()
    sets = decoder(z)
    assert torch.equal(sets.detach(), corners)
    (gradient,) = torch.autograd.grad((sets * torch.randn(2, 4, 3)).sum(), z)
    assert (gradient.abs().max() > 0) == learns


@pytest.mark.parametrize("constraint", [None, Simplex()], ids=["free", "simplex"])
@pytest.mark.parametrize("init", [RandomInit(), LearnedInit()], ids=["random start", "learned start"])
def test_unrolled_is_autograd_through_the_loop(constraint, init):
    solver = Nesterov(steps=4, lr=0.7, momentum=0.6, clip=0.2)
    decoder = fspool_decoder(Unrolled(), constraint, init, solver)
    z, v = torch.randn(2, 12).double().requires_grad_(), torch.randn(2, 4, 3).double()
    ours = gradients(decoder, z, v)

    project = constraint or (lambda x: x)
    start = decoder.init(2, z).detach() if not decoder.init.weight else decoder.init(2, z)
    sets, velocity = project(start).requires_grad_(), torch.zeros(2, 4, 3).double()
    for _ in range(4):
        loss = 0.5 * (decoder.encoder(sets) - z).square().mean(1).sum()
        loss = loss + decoder.init.weight * 0.5 * (sets - start).square().mean((1, 2)).sum()
        (grad,) = torch.autograd.grad(loss, sets, create_graph=True)
        grad = grad * (0.2 / (grad.norm(dim=(1, 2), keepdim=True) + 1e-6)).clamp(max=1)
        velocity = 0.6 * velocity + grad
        sets = project(sets - 0.7 * (grad + 0.6 * velocity))
    assert_same(ours, torch.autograd.grad((sets * v).sum(), [z, *decoder.parameters()]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.RMSprop, torch.optim.SGD])
def test_torch_optimisers_unroll_exactly(optimizer):
    decoder = fspool_decoder(Unrolled(), solver=TorchOptimizer(optimizer, steps=3, lr=0.05))
    z = torch.randn(2, 12).double().requires_grad_()
    assert torch.autograd.gradcheck(decoder, (z,), atol=1e-6)


class PlainSGD(torch.optim.SGD):
    def __init__(self, params, lr):
        super().__init__(params, lr)


@pytest.mark.parametrize("optimizer", [PlainSGD, torch.optim.Rprop])
def test_an_optimiser_that_cannot_be_unrolled_is_refused(optimizer):
    """Rprop says it can, and then overwrites what its own backward pass needs."""
    decoder = fspool_decoder(Unrolled(), solver=TorchOptimizer(optimizer, steps=3, lr=0.1))
    with pytest.raises(ValueError, match=r"cannot be unrolled: .* use an implicit adjoint such as Identity"):
        decoder(torch.randn(2, 12).double())


ADJOINTS = {
    "identity": Identity(),
    "straight": Identity(straight=True),
    "cg": ConjugateGradient(5, gamma=None),
    "damped": ConjugateGradient(3, 100.0),
    "unrolled": Unrolled(),
}
every_adjoint = pytest.mark.parametrize("adjoint", ADJOINTS.values(), ids=ADJOINTS)


@every_adjoint
@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_the_value_does_not_depend_on_the_adjoint(adjoint, constraint):
    decoder = fspool_decoder(adjoint, constraint)
    z = torch.randn(2, 12).double()
    with torch.no_grad():
        plain = decoder(z)
    assert torch.equal(decoder(z.requires_grad_()).detach(), plain)


@every_adjoint
def test_only_what_requires_a_gradient_gets_one(adjoint):
    decoder = fspool_decoder(adjoint, init=LearnedInit())
    z = torch.randn(2, 12).double()
    decoder.encoder.requires_grad_(False)
    decoder(z).square().sum().backward()
    assert decoder.init.sets.grad is not None
    assert all(p.grad is None for p in decoder.encoder.parameters())
    decoder.requires_grad_(False)
    assert not decoder(z).requires_grad
    z.requires_grad_()
    decoder(z).square().sum().backward()
    assert z.grad.abs().sum() > 0


@every_adjoint
def test_a_learned_start_learns_through_its_regulariser(adjoint):
    decoder = fspool_decoder(adjoint, init=LearnedInit(weight=0.1))
    decoder(torch.randn(2, 12).double()).square().sum().backward()
    assert decoder.init.sets.grad.abs().sum() > 0


@every_adjoint
def test_stopped_examples_are_differentiated_where_they_stopped(adjoint):
    """A solution reached early has the gradient of the same solution reached late."""
    z, v = torch.randn(3, LATENT).double().requires_grad_(), torch.randn(3, SIZE, DIM).double()
    decoder = smooth_decoder(adjoint, steps=400)
    early = gradients(decoder, z, v)
    decoder.solver.tol = None
    assert_same(early, gradients(decoder, z, v), rtol=1e-5, atol=1e-8)


def symmetric_systems(eigenvalues, count=2000):
    """A, v and the solution of A u = v of least length, for random symmetric 6×6 systems with such eigenvalues."""
    g = torch.Generator().manual_seed(0)
    Q = torch.linalg.qr(torch.randn(count, 6, 6, generator=g).double()).Q
    spectrum = torch.rand(count, 6, generator=g).double() + 0.01
    spectrum[:, : len(eigenvalues)] *= torch.tensor(eigenvalues).double()
    A, v = (Q * spectrum[:, None]) @ Q.mT, torch.randn(count, 2, 3, generator=g).double()
    inverse = torch.where(spectrum == 0, 0.0, 1 / spectrum)
    return A, v, ((Q * inverse[:, None]) @ Q.mT @ v.view(count, 6, 1)).view_as(v)


def solved(A, v, steps):
    return minimal_residual(lambda u: (A @ u.view(-1, 6, 1)).view_as(u), v, steps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 6, 10, 60])
def test_indefinite_systems_never_give_more_than_their_solution(dtype, steps):
    A, v, exact = symmetric_systems([-1.0])
    u = solved(A.to(dtype), v.to(dtype), steps).double()
    assert (u.norm(dim=(1, 2)) <= 1.01 * exact.norm(dim=(1, 2))).all()
    if steps >= 10:
        torch.testing.assert_close(u, exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [5, 6, 7, 60])
def test_singular_systems_without_a_solution_stay_bounded(dtype, steps):
    A, v, least = symmetric_systems([-1.0, 0.0])
    u = solved(A.to(dtype), v.to(dtype), steps).double()
    assert (u.norm(dim=(1, 2)) <= 100 * least.norm(dim=(1, 2))).all()


def test_a_decoder_far_from_its_minimum_has_a_bounded_gradient_by_default():
    """After one iteration H is indefinite; damped, the inverse is near the identity."""
    encoder = SetEncoder(dim=3, hidden=16, latent=12, size=4)
    z = torch.randn(64, 12).requires_grad_()
    found = {}
    for adjoint in (ConjugateGradient(), Identity()):
        decoder = SetDecoder(encoder, solver=Nesterov(steps=1), constraint=Simplex(), adjoint=adjoint).eval()
        found[type(adjoint)] = torch.autograd.grad(decoder(z).square().sum(), z)[0].norm()
    assert found[ConjugateGradient] < 2 * found[Identity]


def test_the_gradient_of_a_solve_cannot_be_differentiated_again():
    decoder, z = fspool_decoder(ConjugateGradient(3)), torch.randn(2, 12).double().requires_grad_()
    with pytest.raises(ValueError, match=r"its gradient has no gradient: use Identity\(\) or Unrolled\(\)"):
        torch.autograd.grad(decoder(z).square().sum(), z, create_graph=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConjugateGradient(steps=0), "steps is 0"),
        (lambda: ConjugateGradient(gamma=-1.0), "gamma is -1.0, it must be above 0"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

"""Adjoints: how gradients come back through the inner optimisation.

At a minimum Y* the gradient G = ∇L(Y*; z, θ) vanishes, so the implicit function theorem gives
`H ∂Y*/∂θ = -∂G/∂θ`. With a constraint the condition is `proj(Y* - G) = Y*`. With D, the Jacobian of that projection, it
gives `(I - D + D H) ∂Y*/∂θ = -D ∂G/∂θ`.

Implicit adjoints run all iterations but the last without a graph and return `Y + (F - F.detach())`, whose value is
Y and whose gradient is that of F. There is no custom autograd function, so hooks and DistributedDataParallel see plain
tensors.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .constraints import Constraint
from .descent import Descent


class Adjoint:
    """Base class of the adjoints."""

    def run(self, descent: Descent, steps: int) -> Tensor:
        """Advance `descent` by `steps` and return its sets, differentiable."""
        raise NotImplementedError


@dataclass
class Unrolled(Adjoint):
    """Back-propagate through every iteration (DSPN). The gradient is exact; memory grows with the iterations.

    >>> import setpred as sp
    >>> encoder = sp.SetEncoder(dim=2, hidden=16, latent=8, size=3)
    >>> decoder = sp.SetDecoder(encoder, solver=sp.GradientDescent(steps=5), adjoint=sp.Unrolled())
    """

    def run(self, descent: Descent, steps: int) -> Tensor:
        if not descent.solver.differentiable:
            raise ValueError(
                f"{descent.solver} cannot be unrolled: its optimiser cannot be differentiated; "
                "use an implicit adjoint such as Identity()"
            )
        if not descent.sets.requires_grad:
            descent.sets = descent.sets.detach().requires_grad_()
        while descent.t < steps and not descent.finished:
            descent.advance(*descent.objective.gradient(descent.sets, graph=True))
        return descent.sets


class Implicit(Adjoint):
    """Differentiate the solution instead of the iterations: memory is constant, and any solver will do."""

    def run(self, descent: Descent, steps: int) -> Tensor:
        descent.run(steps - 1)
        objective, point = descent.objective, descent.sets.detach().requires_grad_()
        loss, grad = objective.gradient(point, graph=True)
        with torch.no_grad():
            descent.advance(loss, grad)
        step = self.implicit_step(grad, point, descent.constraint, objective.given)
        change = step - step.detach()
        if objective.given is not None:
            change = change.masked_fill(objective.given, 0.0)
        return objective.fill(descent.sets) + change

    def implicit_step(self, grad: Tensor, point: Tensor, constraint: Constraint | None, given: Tensor | None) -> Tensor:
        """A tensor that depends on z and θ as the solution does; its value does not matter."""
        raise NotImplementedError


@dataclass
class Identity(Implicit):
    """Replace H by the identity, which gives the gradient of one step at the solution (iDSPN, the paper's choice).

    Args:
        straight: treat the Jacobian of the constraint's projection as the identity, too, so that entries which the
            constraint holds in place still learn. Without it, an element that rests at a corner of the simplex, right
            or wrong, has no gradient at all.

    Example:
        >>> import setpred as sp
        >>> sp.iDSPN(sp.SetEncoder(dim=2, hidden=16, latent=8, size=3)).adjoint
        Identity(straight=False)
    """

    straight: bool = False

    def implicit_step(self, grad: Tensor, point: Tensor, constraint: Constraint | None, given: Tensor | None) -> Tensor:
        return -grad if constraint is None or self.straight else constraint(point.detach() - grad)


@dataclass
class ConjugateGradient(Implicit):
    """Apply the inverse Hessian, by conjugate gradients that need only Hessian-vector products.

    Do not train with `gamma=None`, the plain H. Where a solution is not well determined (in flat valleys, at saddles,
    after few iterations), H has an eigenvalue near zero, and the gradient is as large as the inverse of that
    eigenvalue. Use the plain H for the gradient of a well determined minimum that the solver has reached.

    Args:
        steps: iterations of the linear solve, each of which takes one Hessian-vector product.
        gamma: with a number, the system is solved with the damped H / gamma + I, and large numbers approach `Identity`;
            with None, it is solved with H.

    Example:
        >>> import setpred as sp
        >>> encoder = sp.SetEncoder(dim=2, hidden=16, latent=8, size=3)
        >>> decoder = sp.iDSPN(encoder, adjoint=sp.ConjugateGradient(steps=3, gamma=100.0))
    """

    steps: int = 10
    gamma: float | None = 100.0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"ConjugateGradient: steps is {self.steps}, it must be at least 1")
        if self.gamma is not None and not self.gamma > 0:
            raise ValueError(f"ConjugateGradient: gamma is {self.gamma}, it must be above 0 (or None for the plain H)")

    def implicit_step(self, grad: Tensor, point: Tensor, constraint: Constraint | None, given: Tensor | None) -> Tensor:
        def curvature(u: Tensor) -> Tensor:  # H u, damped
            (hu,) = torch.autograd.grad(grad, point, u, retain_graph=True)
            return hu if self.gamma is None else hu / self.gamma + u

        tangent = _tangent(constraint, (point - grad).detach(), given)
        if constraint is None or constraint.polyhedral:
            # D is a projector P: (P H P + I - P) u = P v is symmetric.

            def on_face(u: Tensor) -> Tensor:
                inside = tangent(u)
                return tangent(curvature(inside)) + u - inside

            def solve(v: Tensor) -> Tensor:
                return minimal_residual(on_face, tangent(v), self.steps)

        else:
            # Aᵀ w = v with A = I - D + D H, through the normal equations A Aᵀ w = A v; then u = D w.

            def apply(u: Tensor) -> Tensor:
                return u - tangent(u) + tangent(curvature(u))

            def apply_transposed(u: Tensor) -> Tensor:
                inside = tangent(u)
                return u - inside + curvature(inside)

            def solve(v: Tensor) -> Tensor:
                return tangent(minimal_residual(lambda w: apply(apply_transposed(w)), apply(v), self.steps))

        def gradient(v: Tensor | None) -> Tensor | None:
            if torch.is_grad_enabled():
                raise ValueError(
                    "ConjugateGradient keeps no graph of its solve, so its gradient has no gradient: "
                    "use Identity() or Unrolled() with create_graph=True"
                )
            return None if v is None else solve(v)  # None: nothing depends on the sets

        step = -grad
        step.register_hook(gradient)
        return step


def minimal_residual(product: Callable[[Tensor], Tensor], v: Tensor, steps: int) -> Tensor:
    """Solve A u = v for each example, A symmetric, given u → A u: MINRES of Paige and Saunders.

    Conjugate gradients in the form that needs no positive A: after k steps, u has the smallest residual among the
    combinations of v, A v, …, A^(k-1) v. An example rests once it is solved, or where A is flat along all that is
    left of its residual, relative to how steep it was before: no u of reasonable length makes that smaller.
    """
    eps = torch.finfo(v.dtype).eps
    left = length = _dot(v, v).sqrt()  # of the residual, and of v
    basis, before = v / torch.where(length > 0, length, 1.0), torch.zeros_like(v)
    u, direction, last_direction = torch.zeros_like(v), torch.zeros_like(v), torch.zeros_like(v)
    zero = torch.zeros_like(length)
    cos, sin, coupling, below, beyond, steepest = zero - 1, zero, zero, zero, zero, zero
    go = (length > 0) & length.isfinite()
    for _ in range(steps):
        # Lanczos: A in the orthonormal basis is tridiagonal.
        image = product(basis) - coupling * before
        diagonal = _dot(basis, image)
        image = image - diagonal * basis
        coupling = _dot(image, image).sqrt()
        # A rotation takes away what stands below the diagonal.
        above, above_that = cos * below + sin * diagonal, beyond
        pivot = sin * below - cos * diagonal
        beyond, below = sin * coupling, -cos * coupling
        size = torch.hypot(pivot, coupling)
        steepest = torch.maximum(steepest, size)
        flat = torch.hypot(pivot, below) <= eps**0.5 * steepest  # the length of A r, for a residual r of length 1
        go = go & ~flat & (left > eps * length)
        safe = torch.where(go, size, 1.0)
        cos, sin = pivot / safe, coupling / safe
        direction, last_direction = (basis - above_that * last_direction - above * direction) / safe, direction
        go = go & (
            cos.abs() * _dot(direction, direction).sqrt() * eps**0.5 * steepest < 1
        )  # else it is mostly rounding
        u = u + torch.where(go, cos * left * direction, 0.0)
        left = torch.where(go, sin * left, left)
        go = go & (coupling > eps**0.5 * steepest)  # else nothing but rounding would follow
        before, basis = basis, image / torch.where(go, coupling, 1.0)
    return u


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=(1, 2), keepdim=True)


def _tangent(constraint: Constraint | None, target: Tensor, given: Tensor | None) -> Callable[[Tensor], Tensor]:
    """The Jacobian D of the projection at `target`, on the free entries, as v → D v."""

    def free(v: Tensor) -> Tensor:
        return v if given is None else v.masked_fill(given, 0.0)

    if constraint is None:
        return free
    target.requires_grad_()
    with torch.enable_grad():
        projected = constraint(target)
    return lambda v: free(torch.autograd.grad(projected, target, free(v), retain_graph=True)[0])

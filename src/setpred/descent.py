"""The inner loop, written once for all solvers: gradient, early stop, clip, update, projection, known entries."""

from collections.abc import Callable

import torch
from torch import Tensor

from .constraints import Constraint
from .kernels.whole_descent import reduced_products, run_compiled
from .objective import Objective
from .solvers import Solver


class Descent:
    """The loop: one `advance` is one inner iteration, for every example that has not stopped.

    Attributes:
        sets: the current iterates, `[batch, size, dim]`.
        t: how many iterations were made.
        first_loss: L at the start, `[batch]`.
        loss: L at the last gradient, `[batch]`.
        grad: the last gradient, before clipping, `[batch, size, dim]`.
        taken: how many steps an example made, `[batch]`.
        clipped: how many of their gradients were clipped, `[batch]`.
        running: which examples still move, `[batch]`, or None where all do.
        watch: called with sets, loss and gradient before each step.
    """

    def __init__(
        self, objective: Objective, solver: Solver, constraint: Constraint | None, sets: Tensor, projected: bool = True
    ):
        self.objective, self.solver, self.constraint = objective, solver, constraint
        self.sets = self.admissible(sets) if projected else objective.fill(sets).contiguous()
        self.state = solver.start(self.sets)
        self.t = 0
        batch = sets.shape[0]  # not len, which would make it a constant of an exported model
        self.first_loss, self.loss, self.taken, self.clipped = (sets.new_zeros(batch) for _ in range(4))
        self.grad = torch.zeros_like(self.sets)
        self.running: Tensor | None = None
        self.watch: Callable[[Tensor, Tensor, Tensor], None] | None = None

    def run(self, steps: int) -> None:
        """Advance up to iteration `steps` without a graph, in constant memory."""
        exact = self.solver.exact_steps
        if exact is not None and self.t < steps - exact:
            with reduced_products():
                self._run(steps - exact)
        self._run(steps)

    def _run(self, steps: int) -> None:
        with torch.no_grad():
            if not run_compiled(self, steps):
                while self.t < steps and not self.finished:
                    self.advance(*self.objective.gradient(self.sets))

    @property
    def finished(self) -> bool:
        return self.running is not None and not bool(self.running.any())

    def advance(self, loss: Tensor, grad: Tensor) -> None:
        """Move along `grad`, the gradient at `self.sets`."""
        self.loss, self.grad = loss.detach(), grad.detach()
        if self.t == 0:
            self.first_loss = self.loss
        if self.watch is not None:
            self.watch(self.sets, self.loss, self.grad)
        if self.solver.tol is not None:
            moving = self.moving(self.solver.tol)
            self.running = moving if self.running is None else self.running & moving
        if self.solver.clip is not None:
            norm = set_norm(grad)
            long = norm.detach() > self.solver.clip
            self.clipped = self.clipped + (long if self.running is None else long & self.running)
            grad = grad * (self.solver.clip / (norm + 1e-6)).clamp(max=1)[:, None, None]
        moved, self.state = self.solver.step(self, grad)
        moved = self.admissible(moved)
        self.sets = moved if self.running is None else torch.where(self.running[:, None, None], moved, self.sets)
        self.taken = self.taken + (1 if self.running is None else self.running)
        self.t += 1

    def admissible(self, sets: Tensor) -> Tensor:
        """The sets projected, with the known entries put in."""
        return self.objective.fill(sets if self.constraint is None else self.constraint(sets)).contiguous()

    def moving(self, tol: float) -> Tensor:
        """Which examples have not converged, `[batch]`: their projected gradient is longer than `tol`."""
        sets = self.sets.detach()
        return set_norm(self.admissible(sets - self.grad) - sets) > tol


def set_norm(sets: Tensor) -> Tensor:
    """Length of each example over all its entries, `[batch]`; its gradient at zero is zero."""
    return torch.linalg.vector_norm(sets, dim=(1, 2))


def all_finite(sets: Tensor) -> Tensor:
    """Whether each example holds neither NaN nor infinity, `[batch]`."""
    sets = sets.detach().flatten(1)
    finite = sets.sum(dim=1).isfinite()  # far faster than asking every entry, but a sum of large numbers may overflow
    return finite if finite.all() else sets.isfinite().all(dim=1)

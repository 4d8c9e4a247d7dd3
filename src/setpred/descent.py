"""The inner loop, written once for all solvers: gradient, early stop, clip, update, projection, known entries.

Where the gradient is compiled, the batch is cut in one share a core and each runs from start to end on its own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from threading import Lock

import torch
from torch import Tensor

from .constraints import Constraint
from .kernels.inner import FastGradient
from .kernels.threads import run_on_cores
from .kernels.threads import shares as shares_of
from .objective import Objective
from .solvers import Solver

# What a descent keeps for each example by itself.
EXAMPLEWISE = ("sets", "state", "first_loss", "loss", "grad", "taken", "clipped", "running")
_REDUCING = Lock()
_BEFORE: list[str] = []  # the precision of products before `reduced_products`, once for each thread that is inside


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

    def __init__(self, objective: Objective, solver: Solver, constraint: Constraint | None, sets: Tensor):
        self.objective, self.solver, self.constraint = objective, solver, constraint
        self.sets = self._admissible(sets)
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
        whole = not self.solver.separable or not isinstance(self.state, Tensor | None)
        if self.objective.compiled is None or whole or self.watch is not None:
            return self._run_here(steps)
        self.sets = self.sets.detach().clone()  # the compiled updates work in place
        parts = shares_of(len(self.sets))
        if len(parts) == 1:
            return self._run_here(steps)
        shares = [self._share(part) for part in parts]
        run_on_cores(lambda share: share._run_here(steps), shares)
        self._join(shares)

    def _run_here(self, steps: int) -> None:
        with torch.no_grad():
            if self.objective.compiled is not None and self.solver.in_place and self.watch is None:
                return self._run_in_place(self.objective.compiled, steps)
            while self.t < steps and not self.finished:
                self.advance(*self.objective.gradient(self.sets))

    def _run_in_place(self, gradient: FastGradient, steps: int) -> None:
        """`advance` again and again on the same memory, without a graph, a watch or a tolerance."""
        self.loss, self.grad = torch.empty_like(self.loss), torch.empty_like(self.sets)
        evaluate = gradient.bind(self.sets, self.loss, self.grad)
        step = self.solver.steps_on(self.sets, self.grad, self.state, self.clipped)
        for t in range(self.t, steps):
            evaluate()
            if t == 0:
                self.first_loss = self.loss.clone()
            step(t)
            if self.constraint is not None:
                self.constraint.project_(self.sets)
                self.objective.fill_(self.sets)
        self.taken += steps - self.t
        self.t = max(self.t, steps)

    def _share(self, part: slice) -> "Descent":
        """This descent for some of the examples."""
        share = copy(self)
        share.objective = self.objective.select(part)
        for name in EXAMPLEWISE:
            value = getattr(self, name)
            setattr(share, name, value if value is None else value[part])
        return share

    def _join(self, shares: list["Descent"]) -> None:
        for name in EXAMPLEWISE:
            parts = [getattr(share, name) for share in shares]
            setattr(self, name, None if parts[0] is None else torch.cat(parts))
        self.t = max(share.t for share in shares)

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
            self._stop_the_converged(self.grad, self.solver.tol)
        if self.solver.clip is not None:
            norm = set_norm(grad)
            long = norm.detach() > self.solver.clip
            self.clipped = self.clipped + (long if self.running is None else long & self.running)
            grad = grad * (self.solver.clip / (norm + 1e-6)).clamp(max=1)[:, None, None]
        moved, self.state = self.solver.update(self.sets, grad, self.state, self.t)
        moved = self._admissible(moved)
        self.sets = moved if self.running is None else torch.where(self.running[:, None, None], moved, self.sets)
        self.taken = self.taken + (1 if self.running is None else self.running)
        self.t += 1

    def _admissible(self, sets: Tensor) -> Tensor:
        return self.objective.fill(sets if self.constraint is None else self.constraint(sets)).contiguous()

    def _stop_the_converged(self, grad: Tensor, tol: float) -> None:
        sets = self.sets.detach()
        moving = set_norm(self._admissible(sets - grad) - sets) > tol
        self.running = moving if self.running is None else self.running & moving


@contextmanager
def reduced_products() -> Iterator[None]:
    """Inside, float32 matrix products may use fewer bits where that is faster.

    It concerns the whole process: of several threads the first one in notes what was set, the last one out restores it.
    """
    with _REDUCING:
        _BEFORE.append(_BEFORE[0] if _BEFORE else torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        with _REDUCING:
            before = _BEFORE.pop()
            if not _BEFORE:
                torch.set_float32_matmul_precision(before)


def set_norm(sets: Tensor) -> Tensor:
    """Length of each example over all its entries, `[batch]`; its gradient at zero is zero."""
    return torch.linalg.vector_norm(sets, dim=(1, 2))


def all_finite(sets: Tensor) -> Tensor:
    """Whether each example holds neither NaN nor infinity, `[batch]`."""
    sets = sets.detach().flatten(1)
    finite = sets.sum(dim=1).isfinite()  # far faster than asking every entry, but a sum of large numbers may overflow
    return finite if finite.all() else sets.isfinite().all(dim=1)

"""Whole descents in compiled code: the one door between the inner loop and the kernels.

Where the gradient, the solver's step and the memory are known, the iterations of `Descent.advance` run in place on
memory that is looked up once. The batch is cut in one slice per core, and each core runs its own loop to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from threading import Lock
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..constraints import Constraint, PerSlice, Simplex
from ..solvers import GradientDescent, Nesterov, Schedule, value_at
from .jit import readable
from .simplex import in_rows, project_simplex_
from .slices import run_on_cores, slices

if TYPE_CHECKING:
    from ..descent import Descent

EXAMPLEWISE = ("sets", "state", "first_loss", "loss", "grad", "taken", "clipped", "running")
"""What a descent holds for each example by itself."""
_REDUCING = Lock()
_BEFORE: list[str] = []  # the precision of products before `reduced_products`, once for each thread that is inside


def run_compiled(descent: Descent, steps: int) -> bool:
    """Advance a descent up to iteration `steps` if compiled code does the same, and say whether it did.

    It steps aside where nothing is compiled for the encoder (`fast_gradient`) or for the step of the solver, where
    someone watches the iterations, and where the state of the solver is not a velocity.
    """
    gradient, momentum = descent.objective.compiled, _momentum(descent)
    if gradient is None or momentum is None or descent.watch is not None or descent.t >= steps or descent.finished:
        return False
    from .steps import nesterov_steps

    for name in EXAMPLEWISE:  # the descent's own memory from here on
        value = getattr(descent, name)
        setattr(descent, name, None if value is None else value.detach().clone())
    velocity = torch.zeros_like(descent.sets) if descent.state is None else descent.state
    running = torch.ones_like(descent.loss, dtype=torch.bool) if descent.running is None else descent.running
    if descent.solver.tol is not None:
        descent.running = running
    touched = _touches_known(descent)

    def run(examples: slice) -> int:
        part = _part(descent, examples)
        evaluate = gradient.part(examples).bind(part.sets, part.loss, part.grad)
        moving, solver = running[examples], part.solver
        step = nesterov_steps(part.sets, part.grad, velocity[examples], moving, part.taken, part.clipped, solver.clip)
        with torch.no_grad():
            while part.t < steps and not part.finished:
                evaluate()
                if part.t == 0:
                    part.first_loss.copy_(part.loss)
                if solver.tol is not None:
                    moving &= part.moving(solver.tol)
                step(value_at(solver.lr, part.t), value_at(momentum, part.t))
                _make_admissible(part, touched)
                part.t += 1
        return part.t

    descent.t = max(run_on_cores(run, slices(len(velocity))))
    return True


def _momentum(descent: Descent) -> Schedule | None:
    """The momentum of a solver whose step is compiled, None for others."""
    solver, sets, state = descent.solver, descent.sets, descent.state
    update = getattr(solver.update, "__func__", None)
    if update is GradientDescent.update and state is None and readable([sets]):
        return 0.0
    if isinstance(solver, Nesterov) and update is Nesterov.update and isinstance(state, Tensor):
        alike = readable([sets, state]) and state.shape == sets.shape and state.is_contiguous()
        return solver.momentum if alike else None
    return None


def _part(descent: Descent, examples: slice) -> Descent:
    """The descent of some examples, on the same memory."""
    part = copy(descent)
    part.objective = descent.objective.select(examples)
    for name in EXAMPLEWISE:
        value = getattr(descent, name)
        setattr(part, name, None if value is None else value[examples])
    return part


def _touches_known(descent: Descent) -> bool:
    """Whether the constraint may change known entries, which the step itself leaves as they are."""
    given = descent.objective.given
    if type(descent.constraint) is not PerSlice or given is None:
        return given is not None
    return any(bool(given[..., start:stop].any()) for start, stop in descent.constraint.parts)


def _make_admissible(descent: Descent, touched: bool) -> None:
    """`Descent.admissible`, in place; `touched` says whether known entries have to be put in again."""
    sets, values, given = descent.sets, descent.objective.values, descent.objective.given
    if descent.constraint is None:
        return  # a gradient of zero has left the known entries as they are
    if descent.running is not None:  # what has stopped keeps its bits
        torch.where(descent.running[:, None, None], descent.admissible(sets), sets, out=sets)
        return
    project_(descent.constraint, sets)
    if touched and values is not None and given is not None:
        torch.where(given, values, sets, out=sets)


def project_(constraint: Constraint, sets: Tensor) -> None:
    """`sets` become `constraint(sets)`, without a graph."""
    if type(constraint) is Simplex and in_rows(sets):
        project_simplex_(sets, constraint.total)
    elif type(constraint) is PerSlice:
        for (start, stop), part in constraint.parts.items():
            project_(part, sets[..., start:stop])
    else:
        sets.copy_(constraint(sets))


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

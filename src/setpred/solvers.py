"""Solvers: how a set moves along the gradient of the inner objective.

A solver says where to go from one gradient (`update`); the loop around it is written once, in `Descent`.
`lr` and `momentum` are numbers or functions of the iteration, counted from 0.
"""

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cached_property
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from .constraints import Constraint
from .kernels.steps import momentum_step_
from .kernels.threads import run_on_cores
from .kernels.threads import shares as shares_of
from .objective import Objective

Schedule = float | Callable[[int], float]


@dataclass
class Solver:
    """What all solvers share.

    Args:
        steps: iterations.
        eval_steps: iterations in `eval()`, where they should differ.
        lr: step size.
        clip: longest gradient of an example (L2 norm over the whole set).
        tol: an example stops once the length of its (projected) gradient is at most this.
    """

    steps: int = 10
    _: KW_ONLY
    eval_steps: int | None = None
    lr: Schedule = 1.0
    clip: float | None = None
    tol: float | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "eval_steps"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, Integral) or value < 1):
                raise ValueError(f"{type(self).__name__}: {name} is {value!r}, it must be a whole number from 1 on")
        for name in ("clip", "tol"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{type(self).__name__}: {name} is {value!r}, it must be above 0 (or None for none)")

    @property
    def differentiable(self) -> bool:
        """Whether its steps can be back-propagated through."""
        return True

    @property
    def separable(self) -> bool:
        """Whether its state is one tensor (or None) that can be cut along the batch."""
        return True

    @property
    def in_place(self) -> bool:
        """Whether it has a compiled `update_`."""
        return False

    def start(self, sets: Tensor) -> Any:
        """The state before the first step."""
        return None

    def update(self, sets: Tensor, grad: Tensor, state: Any, t: int) -> tuple[Tensor, Any]:
        """The sets after step `t`, and the state to go on with."""
        raise NotImplementedError

    def update_(self, sets: Tensor, grad: Tensor, state: Any, clipped: Tensor, t: int) -> None:
        """Clip and `update` in place, counting in `clipped`; only where `in_place`."""
        raise NotImplementedError


@dataclass
class GradientDescent(Solver):
    """Plain gradient descent.

    >>> GradientDescent(steps=20, lr=lambda t: 1 / (1 + t)).steps
    20
    """

    def update(self, sets: Tensor, grad: Tensor, state: Any, t: int) -> tuple[Tensor, Any]:
        return torch.sub(sets, grad, alpha=_at(self.lr, t)), None


@dataclass
class Nesterov(Solver):
    """Gradient descent with Nesterov momentum, as `torch.optim.SGD(nesterov=True)`: the first step is 1 + m long.

    >>> Nesterov(steps=40, eval_steps=80, momentum=0.9, clip=10.0).eval_steps
    80
    """

    _: KW_ONLY
    momentum: Schedule = 0.9

    def start(self, sets: Tensor) -> Tensor:
        return torch.zeros_like(sets)

    def update(self, sets: Tensor, grad: Tensor, state: Tensor, t: int) -> tuple[Tensor, Tensor]:
        momentum = _at(self.momentum, t)
        velocity = torch.add(grad, state, alpha=momentum)
        return torch.sub(sets, torch.add(grad, velocity, alpha=momentum), alpha=_at(self.lr, t)), velocity

    @property
    def in_place(self) -> bool:
        return self.tol is None

    def update_(self, sets: Tensor, grad: Tensor, state: Tensor, clipped: Tensor, t: int) -> None:
        """Clipping and `update` in one pass over memory, for float32 on the CPU."""
        momentum_step_(sets, grad, state, clipped, _at(self.lr, t), _at(self.momentum, t), self.clip or 0.0)


@dataclass(init=False)
class TorchOptimizer(Solver):
    """Any optimiser of `torch.optim` that treats the examples of a batch independently.

    Args:
        optimizer: its class.
        options: its other arguments; `steps`, `eval_steps`, `lr`, `clip` and `tol` are those of every solver.

    Example:
        >>> solver = TorchOptimizer(torch.optim.Adam, lr=0.1, steps=50, betas=(0.5, 0.9))
    """

    optimizer: type[torch.optim.Optimizer] = torch.optim.SGD
    options: dict[str, Any] = field(default_factory=dict)

    def __init__(self, optimizer: type[torch.optim.Optimizer], **options: Any):
        shared = {f.name: options.pop(f.name) for f in fields(Solver) if f.name in options}
        super().__init__(**shared)
        self.optimizer, self.options = optimizer, options
        if not self._independent():
            raise ValueError(
                f"{optimizer.__name__} mixes the examples of a batch: choose an elementwise one such as Adam"
            )

    @cached_property
    def differentiable(self) -> bool:
        if "differentiable" not in inspect.signature(self.optimizer).parameters:
            return False
        try:  # some overwrite what their own backward pass needs
            with torch.enable_grad():
                first = sets = torch.zeros(1, 1, 2, requires_grad=True)
                state = None
                for t in range(3):
                    sets, state = self.update(sets, (sets + 1) * (t + 1), state, t)
                torch.autograd.grad(sets.sum(), first)
        except RuntimeError:
            return False
        return True

    @property
    def separable(self) -> bool:
        return False

    def start(self, sets: Tensor) -> Any:
        return None

    def update(self, sets: Tensor, grad: Tensor, state: Any, t: int) -> tuple[Tensor, Any]:
        lr = _at(self.lr, t)
        moving = sets.clone()  # the optimiser works in place, and the graph may hold the sets it was given
        if state is None:
            graph = {"differentiable": True} if moving.requires_grad else {}
            make: Callable[..., torch.optim.Optimizer] = self.optimizer
            state = make([moving], lr=lr, **graph, **self.options)
        else:
            group = state.param_groups[0]
            (before,) = group["params"]
            group["params"], group["lr"] = [moving], lr
            if before in state.state:
                state.state[moving] = state.state.pop(before)
        if moving.requires_grad:
            moving.retain_grad()  # a non-leaf may hold a gradient only after saying so
        moving.grad = grad
        state.step()
        return moving, state

    def _independent(self) -> bool:
        """Whether a larger gradient in one example leaves the path of the other alone."""
        try:
            paths = []
            for scale in (1.0, 3.0):
                sets, state = torch.zeros(2, 3, 2), None
                for t in range(3):
                    grad = torch.linspace(-1, 2, 12).view(2, 3, 2) * (t + 1)
                    grad[1] *= scale
                    sets, state = self.update(sets, grad, state, t)
                paths.append(sets[0])
            return torch.equal(*paths)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{self.optimizer.__name__} cannot be used here: {error}") from None


# What a descent keeps for each example by itself.
EXAMPLEWISE = ("sets", "state", "loss", "grad", "clipped", "running")


class Descent:
    """The loop: one `advance` is one inner iteration, for every example that has not stopped.

    Attributes:
        sets: the current iterates, `[batch, size, dim]`.
        t: how many iterations were made.
        loss: L at the last gradient, `[batch]`.
        grad: the last gradient, before clipping, `[batch, size, dim]`.
        clipped: how many of an example's gradients were clipped, `[batch]`.
        running: which examples still move, `[batch]`, or None where all do.
        watch: called with sets, loss and gradient before each step.
    """

    def __init__(self, objective: Objective, solver: Solver, constraint: Constraint | None, sets: Tensor):
        self.objective, self.solver, self.constraint = objective, solver, constraint
        self.sets = self._admissible(sets)
        self.state = solver.start(self.sets)
        self.t = 0
        self.loss, self.clipped = sets.new_zeros(len(sets)), sets.new_zeros(len(sets))
        self.grad = torch.zeros_like(self.sets)
        self.running: Tensor | None = None
        self.watch: Callable[[Tensor, Tensor, Tensor], None] | None = None

    def run(self, steps: int) -> None:
        """Advance up to iteration `steps` without a graph, in constant memory."""
        if self.objective.compiled is None or not self.solver.separable or self.watch is not None:
            return self._run_here(steps)
        self.sets = self.sets.detach().clone()  # the compiled updates work in place
        shares = [self._share(part) for part in shares_of(len(self.sets))]
        run_on_cores(lambda share: share._run_here(steps), shares)
        self._join(shares)

    def _run_here(self, steps: int) -> None:
        compiled = self.objective.compiled is not None and self.solver.in_place and self.watch is None
        move = self._advance_in_place if compiled else self.advance
        with torch.no_grad():
            while self.t < steps and not self.finished:
                move(*self.objective.gradient(self.sets))

    def _advance_in_place(self, loss: Tensor, grad: Tensor) -> None:
        """`advance` without a graph, a watch or a tolerance."""
        self.loss, self.grad = loss, grad
        self.solver.update_(self.sets, grad, self.state, self.clipped, self.t)
        if self.constraint is not None:
            self.constraint.project_(self.sets)
            self.sets = self.objective.fill(self.sets)
        self.t += 1

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
        if self.watch is not None:
            self.watch(self.sets, self.loss, self.grad)
        if self.solver.tol is not None:
            self._stop_the_converged(self.grad, self.solver.tol)
        if self.solver.clip is not None:
            norm = set_norm(grad)
            self.clipped = self.clipped + (norm.detach() > self.solver.clip)
            grad = grad * (self.solver.clip / (norm + 1e-6)).clamp(max=1)[:, None, None]
        moved, self.state = self.solver.update(self.sets, grad, self.state, self.t)
        moved = self._admissible(moved)
        self.sets = moved if self.running is None else torch.where(self.running[:, None, None], moved, self.sets)
        self.t += 1

    def _admissible(self, sets: Tensor) -> Tensor:
        return self.objective.fill(sets if self.constraint is None else self.constraint(sets))

    def _stop_the_converged(self, grad: Tensor, tol: float) -> None:
        sets = self.sets.detach()
        moving = set_norm(self._admissible(sets - grad) - sets) > tol
        self.running = moving if self.running is None else self.running & moving


def set_norm(sets: Tensor) -> Tensor:
    """Length of each example over all its entries, `[batch]`; its gradient at zero is zero."""
    return torch.linalg.vector_norm(sets, dim=(1, 2))


def _at(schedule: Schedule, t: int) -> float:
    return schedule(t) if callable(schedule) else schedule

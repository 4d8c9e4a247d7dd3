"""Solvers: how a set moves along the gradient of the inner objective.

A solver computes the next sets from one gradient (`update`). The loop around it is written once, in `descent.py`.
`lr` and `momentum` are numbers or functions of the iteration, counted from 0.
"""

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .descent import Descent

Schedule = float | Callable[[int], float]
MOST_STEPS = 1_000_000
"""A larger number of iterations is refused as a mistake."""


@dataclass
class Solver:
    """Base class of the solvers.

    Args:
        steps: inner iterations.
        eval_steps: inner iterations in `eval()`; None uses `steps`.
        lr: step size.
        clip: gradients longer than this are shortened to it (L2 norm over the set of an example); None does not clip.
        tol: an example stops once its (projected) gradient is at most this long.
        exact_steps: how many of the last iterations use full precision. The iterations before may use matrix products
            of reduced precision where those are faster (bfloat16 on CPUs with AMX or AVX512-BF16, TF32 on GPUs).
            None uses full precision in all of them.
    """

    steps: int = 10
    _: KW_ONLY
    eval_steps: int | None = None
    lr: Schedule = 1.0
    clip: float | None = None
    tol: float | None = None
    exact_steps: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "eval_steps", "exact_steps"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, Integral) or not 1 <= int(value) <= MOST_STEPS):
                wanted = f"a whole number from 1 to {MOST_STEPS:,}"
                raise ValueError(f"{type(self).__name__}: {name} is {value!r}, it must be {wanted}")
        for name in ("clip", "tol"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{type(self).__name__}: {name} is {value!r}, it must be above 0 (or None for none)")
        for name in ("lr", "momentum"):
            value = getattr(self, name, 0.0)
            if not callable(value) and not (isinstance(value, Real) and isfinite(value)):
                raise ValueError(f"{type(self).__name__}: {name} is {value!r}, it must be a finite number")

    @property
    def differentiable(self) -> bool:
        """Whether its steps can be back-propagated through."""
        return True

    def iterations(self, training: bool = False) -> int:
        """The number of inner iterations, in training or in `eval()`."""
        return self.steps if training or self.eval_steps is None else self.eval_steps

    def planned(self, steps: int) -> "Solver":
        """This solver for a descent of exactly `steps` iterations."""
        return self

    def start(self, sets: Tensor) -> Any:
        """The state before the first step."""
        return None

    def update(self, sets: Tensor, grad: Tensor, state: Any, t: int) -> tuple[Tensor, Any]:
        """The sets after step `t`, and the state for the next step."""
        raise NotImplementedError

    def step(self, descent: "Descent", grad: Tensor) -> tuple[Tensor, Any]:
        """`update` for a descent. Override this in a solver that needs more of the objective than one gradient."""
        return self.update(descent.sets, grad, descent.state, descent.t)


@dataclass
class GradientDescent(Solver):
    """Plain gradient descent.

    >>> GradientDescent(steps=20, lr=lambda t: 1 / (1 + t)).steps
    20
    """

    def update(self, sets: Tensor, grad: Tensor, state: Any, t: int) -> tuple[Tensor, Any]:
        return torch.sub(sets, grad, alpha=value_at(self.lr, t)), None


@dataclass
class Nesterov(Solver):
    """Gradient descent with Nesterov momentum, as in `torch.optim.SGD(nesterov=True)`.

    The first step is 1 + momentum times as long as one of gradient descent.

    Args:
        momentum: the fraction m of the last step that the next step adds.
        settle: take the last step without momentum, which ends the oscillation around the minimum.

    >>> Nesterov(steps=40, eval_steps=80, momentum=0.9, clip=10.0).eval_steps
    80
    """

    _: KW_ONLY
    momentum: Schedule = 0.9
    settle: bool = False

    def planned(self, steps: int) -> "Nesterov":
        if not self.settle:
            return self
        momentum = self.momentum
        return replace(self, momentum=lambda t: 0.0 if t >= steps - 1 else value_at(momentum, t), settle=False)

    def start(self, sets: Tensor) -> Tensor:
        return torch.zeros_like(sets)

    def update(self, sets: Tensor, grad: Tensor, state: Tensor, t: int) -> tuple[Tensor, Tensor]:
        momentum = value_at(self.momentum, t)
        velocity = torch.add(grad, state, alpha=momentum)
        return torch.sub(sets, torch.add(grad, velocity, alpha=momentum), alpha=value_at(self.lr, t)), velocity


@dataclass
class LineSearch(Solver):
    """Gradient descent whose step is halved, example by example, until the objective falls enough (Armijo's rule).

    The first iteration tries `lr`, each later one twice the last step. Each try costs one evaluation of the objective.
    The paper found the line search not worth its cost.

    Args:
        decrease: accept a step that achieves this fraction of the decrease that the gradient predicts.
        halvings: the largest number of halvings per step.

    >>> LineSearch(steps=20, lr=2.0).halvings
    10
    """

    _: KW_ONLY
    decrease: float = 0.1
    halvings: int = 10

    def start(self, sets: Tensor) -> Tensor:
        return sets.new_full((sets.shape[0], 1, 1), value_at(self.lr, 0) / 2)

    def step(self, descent: "Descent", grad: Tensor) -> tuple[Tensor, Tensor]:
        sets, step = descent.sets, 2 * descent.state
        with torch.no_grad():
            for _ in range(self.halvings):
                moved = descent.admissible(sets - step * grad)
                promised = (sets - moved).square().sum(dim=(1, 2)) / step[:, 0, 0]
                enough = descent.objective.loss(moved) <= descent.loss - self.decrease * promised
                if enough.all():
                    break
                step = torch.where(enough[:, None, None], step, step / 2)
        return sets - step * grad, step


@dataclass(init=False)
class TorchOptimizer(Solver):
    """Any optimiser of `torch.optim` that treats the examples of a batch independently.

    Args:
        optimizer: the class, such as torch.optim.Adam.
        options: other arguments of that class. `steps`, `eval_steps`, `lr`, `clip` and `tol` are as in every solver.

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
            with torch.enable_grad(), torch.device("cpu"):  # even in a model on meta
                first = sets = torch.zeros(1, 1, 2, requires_grad=True)
                state = None
                for t in range(3):
                    sets, state = self.update(sets, (sets + 1) * (t + 1), state, t)
                torch.autograd.grad(sets.sum(), first)
        except RuntimeError:
            return False
        return True

    def update(self, sets: Tensor, grad: Tensor, state: Any, t: int) -> tuple[Tensor, Any]:
        lr = value_at(self.lr, t)
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
            with torch.device("cpu"):  # even in a model on meta
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


def value_at(schedule: Schedule, t: int) -> float:
    """The step size or momentum of iteration `t`."""
    value = schedule(t) if callable(schedule) else schedule
    return float(value) if isinstance(value, int) else value  # torch knows whole numbers of 64 bits only

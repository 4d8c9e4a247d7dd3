"""The result of an inner optimisation, and its trajectory."""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from .descent import Descent, all_finite, set_norm


@dataclass
class Trace:
    """The iterates from the initial set to the solution. An example that stops early keeps its last iterate.

    Attributes:
        sets: `[steps + 1, batch, size, dim]`.
        loss: inner loss of each iterate, `[steps + 1, batch]`.
        grad_norm: length of the gradient, `[steps + 1, batch]`.
    """

    sets: Tensor
    loss: Tensor
    grad_norm: Tensor

    def select(self, examples: Tensor) -> "Trace":
        """That of some of the examples."""
        return Trace(self.sets[:, examples], self.loss[:, examples], self.grad_norm[:, examples])


@dataclass
class Solution:
    """The result of the inner optimisation.

    Attributes:
        sets: the predicted sets, `[batch, size, dim]`.
        loss: inner loss of each set, `[batch]`.
        last_loss: inner loss at the last gradient, one step before the result, `[batch]`; equal to `loss` if the
            example diverged.
        grad_norm: length of the inner gradient, `[batch]`.
        clipped: fraction of the iterations whose gradient was clipped, `[batch]`.
        diverged: whether the iterates left the finite numbers, or the inner loss blew up, `[batch]`; `sets` then holds
            the best finite iterate.
        restarted: whether the example got a second start, `[batch]`.
        trace: the iterates, if requested.
    """

    sets: Tensor
    loss: Tensor
    last_loss: Tensor
    grad_norm: Tensor
    clipped: Tensor
    diverged: Tensor
    restarted: Tensor
    trace: Trace | None = None

    @property
    def diagnostics(self) -> dict[str, Tensor]:
        """Means over the batch, for logs. Inner loss and gradient are means over the examples that did not diverge."""
        fine = ~self.diverged
        count = fine.sum().clamp(min=1)
        return {
            "inner_loss": self.loss.where(fine, 0.0).sum() / count,
            "inner_grad_norm": self.grad_norm.where(fine, 0.0).sum() / count,
            "clipped": self.clipped.sum() / max(len(fine), 1),
            "diverged": self.diverged.to(self.clipped.dtype).sum() / max(len(fine), 1),
        }

    def select(self, examples: Tensor) -> "Solution":
        """That of some of the examples."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        trace = found.pop("trace")
        chosen = {name: value[examples] for name, value in found.items()}
        return Solution(**chosen, trace=None if trace is None else trace.select(examples))


class Recorder:
    """Keeps every iterate of a descent."""

    def __init__(self) -> None:
        self.moments: list[tuple[Tensor, Tensor, Tensor]] = []

    def __call__(self, sets: Tensor, loss: Tensor, grad: Tensor) -> None:
        self.moments.append((sets.detach(), loss, set_norm(grad)))

    def trace(self, steps: int) -> Trace:
        moments = self.moments + [self.moments[-1]] * (steps + 1 - len(self.moments))
        sets, loss, grad_norm = zip(*moments, strict=True)
        return Trace(torch.stack(sets), torch.stack(loss), torch.stack(grad_norm))


class BestFinite:
    """Keeps the finite iterate of lowest inner loss of each example; the initial set where there is none."""

    def __init__(self, descent: Descent):
        self.sets = descent.sets
        self.loss = torch.full_like(descent.loss, torch.inf)
        self.grad_norm = torch.full_like(descent.loss, torch.inf)

    def __call__(self, sets: Tensor, loss: Tensor, grad: Tensor) -> None:
        better = (loss < self.loss) & all_finite(sets)
        self.sets = torch.where(better[:, None, None], sets, self.sets)
        self.loss = torch.where(better, loss, self.loss)
        self.grad_norm = torch.where(better, set_norm(grad), self.grad_norm)


def merge(parts: list[tuple[Tensor, Solution]]) -> Solution:
    """One solution of several, each with the mask of the examples that are its own."""
    order = torch.cat([own.nonzero().flatten() for own, _ in parts]).argsort()
    solutions = [solution for _, solution in parts]
    traces = [solution.trace for solution in solutions if solution.trace is not None]

    def joined(things: list[Any], kind: type, dim: int) -> dict[str, Tensor]:
        names = [f.name for f in fields(kind) if f.name != "trace"]
        return {n: torch.cat([getattr(t, n) for t in things], dim).index_select(dim, order) for n in names}

    trace = Trace(**joined(traces, Trace, dim=1)) if traces else None
    return Solution(**joined(solutions, Solution, dim=0), trace=trace)

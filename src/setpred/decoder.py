"""The set decoder: a vector becomes the multiset whose encoding matches it.

Every model of the family consists of six independent parts: an encoder (the objective), an initial set, a constraint, a
solver, an adjoint and a rule for restarts. `iDSPN` and `DSPN` are the two published combinations.
"""

import torch
from torch import Tensor, nn

from .adjoints import Adjoint, Identity, Unrolled
from .arguments import (
    Known,
    check_parts,
    check_vectors,
    checked_known,
    checked_mask,
    checked_shape,
    checked_start,
    checked_steps,
)
from .constraints import Constraint
from .descent import Descent, all_finite, set_norm
from .inits import Init, RandomInit
from .objective import Objective
from .pretrained import Pretrained
from .restart import Restart
from .solution import BestFinite, Recorder, Solution, merge
from .solvers import GradientDescent, Nesterov, Solver
from .tensors import ordinary

BLOWN_UP = 1e3
"""An example has diverged if its last inner loss exceeds this many times (its first inner loss + ½ mean z²)."""


class SetDecoder(Pretrained):
    """Decode a vector z into the set Y that minimises ½ mean (encoder(Y) - z)².

    Args:
        encoder: any module that maps sets `[batch, size, dim]` to vectors `[batch, latent]`; to decode sets of
            different sizes it must also take a mask `[batch, size]`.
        size: elements per set; needed only if the encoder has no attribute `size`.
        dim: numbers per element; needed only if the encoder has no attribute `dim`.
        solver: how the set moves.
        init: the initial set.
        constraint: where the elements may lie; None leaves them free.
        adjoint: how gradients come back.
        restart: gives some examples a second start in `eval()`; None starts every example once.

    Attributes:
        diagnostics: numbers about the last `forward`: the mean inner loss and gradient norm (both at the last gradient,
            one step before the result), the fraction of clipped gradients, and the fraction of diverged examples.

    Example:
        >>> import setpred as sp
        >>> encoder = sp.SetEncoder(dim=2, hidden=32, latent=32, size=5)
        >>> decoder = sp.SetDecoder(encoder, solver=sp.Nesterov(steps=20))
        >>> decoder(torch.randn(8, 32)).shape
        torch.Size([8, 5, 2])
    """

    def __init__(
        self,
        encoder: nn.Module,
        size: int | None = None,
        dim: int | None = None,
        solver: Solver | None = None,
        init: Init | None = None,
        constraint: Constraint | None = None,
        adjoint: Adjoint | None = None,
        restart: Restart | None = None,
    ):
        super().__init__()
        parts = {"solver": solver, "init": init, "constraint": constraint, "adjoint": adjoint, "restart": restart}
        check_parts(encoder=encoder, **parts)
        self.encoder = encoder
        self.size, self.dim = checked_shape(encoder, size, dim)
        usual_solver, usual_adjoint = self.usual()
        self.solver = usual_solver if solver is None else solver
        self.init = RandomInit() if init is None else init
        self.init.build(self.size, self.dim)
        self.constraint = constraint
        self.adjoint = usual_adjoint if adjoint is None else adjoint
        self.restart = restart
        self.diagnostics: dict[str, Tensor] = {}

    @staticmethod
    def usual() -> tuple[Solver, Adjoint]:
        """The default solver and adjoint."""
        return Nesterov(steps=20), Identity()

    def forward(
        self,
        z: Tensor,
        mask: Tensor | None = None,
        known: Known | None = None,
        init: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The predicted sets, `[batch, size, dim]`.

        Args:
            z: vectors, `[batch, latent]`.
            mask: which elements exist, `[batch, size]`; the others are zeros in the result.
            known: a pair of values `[batch, size, dim]` and a mask that broadcasts to this shape. The search keeps the
                values fixed where the mask is true.
            init: initial sets, `[batch, size, dim]` or `[size, dim]`, instead of the decoder's own.
            generator: the source of random initial sets, also in `eval()`.
        """
        solution = self._solve(z, mask, known, init, generator, self._steps(None), trace=False, evaluate=False)
        self.diagnostics = solution.diagnostics
        if self.restart is not None and not self.training:
            self.diagnostics["restarted"] = solution.restarted.to(z.dtype).mean()
        return solution.sets

    def solve(
        self,
        z: Tensor,
        mask: Tensor | None = None,
        known: Known | None = None,
        init: Tensor | None = None,
        generator: torch.Generator | None = None,
        *,
        steps: int | None = None,
        trace: bool = False,
    ) -> Solution:
        """As `forward`, but the result is a `Solution`: the sets, their inner losses and more.

        Args:
            steps: inner iterations, instead of the number in the solver.
            trace: keep all iterates, as `Solution.trace`.
        """
        return self._solve(z, mask, known, init, generator, self._steps(steps), trace=trace, evaluate=True)

    def _steps(self, steps: int | None) -> int:
        return checked_steps(self.solver.iterations(self.training) if steps is None else steps)

    def _solve(
        self,
        z: Tensor,
        mask: Tensor | None,
        known: Known | None,
        init: Tensor | None,
        generator: torch.Generator | None,
        steps: int,
        trace: bool,
        evaluate: bool,
    ) -> Solution:
        if torch.compiler.is_dynamo_compiling():  # it cannot record gradients of gradients
            return torch.compiler.disable(SetDecoder._solve)(
                self, z, mask, known, init, generator, steps, trace, evaluate
            )
        check_vectors(z, self.encoder)
        wants_graph = torch.is_grad_enabled()
        # Inner gradients do not exist in inference mode, and half precision is too coarse for the inner descent.
        with (
            torch.inference_mode(False),
            torch.set_grad_enabled(wants_graph),
            torch.autocast(z.device.type, enabled=False),
        ):
            problem = self._problem(z, mask, known)
            start = self._start(problem, init, generator)
            solution = self._minimise(problem, start, steps, trace, evaluate)
            if self.restart is None or init is not None or self.training:
                return solution
            return self._restarted(self.restart, solution, problem, steps, trace, evaluate)

    def _problem(self, z: Tensor, mask: Tensor | None, known: Known | None) -> Objective:
        parameter = next(self.encoder.parameters(), z)
        z = ordinary(z).to(parameter.dtype)
        problem = Objective(self.encoder, z, weight=self.init.weight)
        if known is not None:
            shape = torch.Size((len(z), self.size, self.dim))
            problem.values, problem.given = checked_known(known, z, shape, self.constraint)
        if mask is not None:
            problem.mask = mask = checked_mask(mask, z, self.size, self.encoder)
            absent = ~mask.unsqueeze(-1).expand(-1, -1, self.dim)
            if problem.values is None or problem.given is None:
                problem.values, problem.given = z.new_zeros(absent.shape), absent
            else:
                problem.values, problem.given = problem.values.masked_fill(absent, 0.0), problem.given | absent
        return problem

    def _start(self, problem: Objective, init: Tensor | None, generator: torch.Generator | None) -> Tensor:
        """The initial sets; the objective keeps them where it pulls to them."""
        z = problem.z
        if init is None:
            start = self.init(len(z), z, generator)
        else:
            start = checked_start(init, z, torch.Size((len(z), self.size, self.dim)))
        start = start.contiguous()
        if self.init.weight:
            problem.start = start
        return start

    def _restarted(
        self,
        restart: Restart,
        first: Solution,
        problem: Objective,
        steps: int,
        trace: bool,
        evaluate: bool,
    ) -> Solution:
        """The better of two solutions for the examples that the first one leaves suspicious."""
        first.restarted = restart.suspects(first.last_loss, first.diverged)
        if not first.restarted.any():
            return first
        again, ends = problem.select(first.restarted), first.sets[first.restarted].detach()
        second = self._minimise(again, restart.start(ends), steps, trace, evaluate)
        second.restarted = ~second.restarted
        before = first.select(first.restarted)
        better = ~second.diverged & (before.diverged | (second.last_loss < before.last_loss))
        replaced = first.restarted.clone()
        replaced[first.restarted] = better
        return merge([(~replaced, first.select(~replaced)), (replaced, second.select(better))])

    def _minimise(self, problem: Objective, start: Tensor, steps: int, trace: bool, evaluate: bool) -> Solution:
        descent = Descent(problem, self.solver.planned(steps), self.constraint, start, self.init.projected)
        recorder = Recorder()
        if trace:
            descent.watch = recorder
        if torch.is_grad_enabled() and _differentiated(problem, start):
            sets = self.adjoint.run(descent, steps)
        else:
            descent.run(steps)
            sets = descent.sets
        loss, grad = problem.gradient(sets) if evaluate else (descent.loss, descent.grad)
        usual = descent.first_loss + 0.5 * problem.z.detach().square().mean(dim=1)
        fine = loss.isfinite() & (descent.loss <= BLOWN_UP * usual) & all_finite(sets) & all_finite(grad)
        if not fine.all():
            return self._rescue(problem, start, steps, trace, evaluate, fine)
        if trace:
            recorder(sets, loss, grad)
        clipped = descent.clipped / descent.taken.clamp(min=1)
        trajectory = recorder.trace(steps) if trace else None
        return Solution(sets, loss, descent.loss, set_norm(grad), clipped, ~fine, torch.zeros_like(fine), trajectory)

    def _rescue(
        self, problem: Objective, start: Tensor, steps: int, trace: bool, evaluate: bool, fine: Tensor
    ) -> Solution:
        """Solve again for the examples that did not diverge, and give the others their best finite iterate.

        The diverged may not even be part of the graph: zero times NaN is NaN in the gradient of a parameter.
        """
        lost, solver = ~fine, self.solver.planned(steps)
        descent = Descent(problem.select(lost), solver, self.constraint, start[lost].detach(), self.init.projected)
        best, recorder = BestFinite(descent), Recorder()

        def watch(sets: Tensor, loss: Tensor, grad: Tensor) -> None:
            best(sets, loss, grad)
            if trace:
                recorder(sets, loss, grad)

        descent.watch = watch
        descent.run(steps)
        trajectory = recorder.trace(steps) if trace else None
        sets = best.sets
        if lost.all():  # then a loss still needs something to back-propagate to: sums of nothing, whose gradient is 0
            sets = sets + sum(source.flatten()[:0].sum() for source in _differentiated(problem, start))
        clipped, yes = descent.clipped / descent.taken.clamp(min=1), lost[lost]
        parts = [(lost, Solution(sets, best.loss, best.loss, best.grad_norm, clipped, yes, ~yes, trajectory))]
        if fine.any():
            survivors = self._minimise(problem.select(fine), start[fine], steps, trace, evaluate)
            parts.append((fine, survivors))
        return merge(parts)

    def extra_repr(self) -> str:
        lines = [f"size={self.size}, dim={self.dim}", f"solver={self.solver}", f"adjoint={self.adjoint}"]
        return ",\n".join(lines if self.constraint is None else [*lines, f"constraint={self.constraint}"])


class iDSPN(SetDecoder):
    """Implicit DSPN: Nesterov momentum and the `Identity` adjoint. Memory does not grow with the iterations.

    >>> encoder = torch.nn.Sequential(torch.nn.Flatten(1), torch.nn.Linear(6, 4))
    >>> iDSPN(encoder, size=3, dim=2)(torch.zeros(1, 4)).shape
    torch.Size([1, 3, 2])
    """


class DSPN(SetDecoder):
    """Deep set prediction network: plain gradient descent, differentiated through every iteration.

    >>> encoder = torch.nn.Sequential(torch.nn.Flatten(1), torch.nn.Linear(6, 4))
    >>> decoder = DSPN(encoder, size=3, dim=2)
    >>> decoder.solver.steps, decoder.adjoint
    (10, Unrolled())
    """

    @staticmethod
    def usual() -> tuple[Solver, Adjoint]:
        return GradientDescent(steps=10), Unrolled()


def _differentiated(problem: Objective, start: Tensor) -> list[Tensor]:
    """Tensors that the solution can be differentiated with respect to."""
    tensors = (problem.z, problem.values, start, *problem.encoder.parameters())
    return [t for t in tensors if t is not None and t.requires_grad]

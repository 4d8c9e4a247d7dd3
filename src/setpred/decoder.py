"""The set decoder: a vector becomes the multiset whose encoding matches it.

Five independent choices make every model of the family: an encoder (the objective), an initial set, a constraint, a
solver and an adjoint. `iDSPN` and `DSPN` are the two published combinations.
"""

import torch
from torch import Tensor, nn

from .adjoints import Adjoint, Identity, Unrolled
from .constraints import Constraint
from .inits import Init, RandomInit
from .objective import Objective, takes_mask
from .solution import BestFinite, Recorder, Solution, merge
from .solvers import Descent, GradientDescent, Nesterov, Solver, set_norm

Known = tuple[Tensor, Tensor]


class SetDecoder(nn.Module):
    """Decode a vector z into the set Y that minimises ½ mean (encoder(Y) - z)².

    Args:
        encoder: any module that maps sets `[batch, size, dim]` to vectors `[batch, latent]`; to decode sets of
            different sizes it must also take a mask `[batch, size]`.
        size: elements of a set.
        dim: numbers in an element.
        solver: how the set moves.
        init: where it starts.
        constraint: where it may go.
        adjoint: how gradients come back.

    Attributes:
        diagnostics: of the last `forward`: mean inner loss and gradient norm (at the last gradient, one step before
            the result), share of gradients clipped, share of examples diverged.

    Example:
        >>> import setpred as sp
        >>> encoder = sp.SetEncoder(dim=2, hidden=32, latent=32, size=5)
        >>> decoder = sp.SetDecoder(encoder, size=5, dim=2, solver=sp.Nesterov(steps=20))
        >>> decoder(torch.randn(8, 32)).shape
        torch.Size([8, 5, 2])
    """

    def __init__(
        self,
        encoder: nn.Module,
        size: int,
        dim: int,
        solver: Solver | None = None,
        init: Init | None = None,
        constraint: Constraint | None = None,
        adjoint: Adjoint | None = None,
    ):
        super().__init__()
        if size < 1 or dim < 1:
            raise ValueError(f"a set needs at least one element of one number, got size={size}, dim={dim}")
        _check_encoder(encoder, size, dim)
        self.encoder, self.size, self.dim = encoder, size, dim
        self.solver = Nesterov(steps=20) if solver is None else solver
        self.init = RandomInit() if init is None else init
        self.init.build(size, dim)
        self.constraint = constraint
        self.adjoint = Identity() if adjoint is None else adjoint
        self.diagnostics: dict[str, Tensor] = {}

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
            mask: which elements exist, `[batch, size]`; the others come out as zeros.
            known: values `[batch, size, dim]` and a mask of the same shape (or one that broadcasts to it) that says
                which of them are given: those are held fixed.
            init: initial sets, `[batch, size, dim]` or `[size, dim]`, instead of the decoder's own.
            generator: draws the random initial sets, also in `eval()`.
        """
        solution = self._solve(z, mask, known, init, generator, self._steps(None), trace=False, evaluate=False)
        self.diagnostics = solution.diagnostics
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
        """As `forward`, with the inner loss and gradient norm of the result, and its trajectory on request.

        Args:
            steps: iterations, instead of the solver's.
            trace: keep every iterate.
        """
        return self._solve(z, mask, known, init, generator, self._steps(steps), trace=trace, evaluate=True)

    def _steps(self, steps: int | None) -> int:
        if steps is None:
            steps = self.solver.steps if self.training else (self.solver.eval_steps or self.solver.steps)
        if not isinstance(steps, int) or steps < 1:
            raise ValueError(f"steps is {steps!r}, it must be a whole number from 1 on")
        return steps

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
        self._check_vectors(z)
        wants_graph = torch.is_grad_enabled()
        # Inner gradients do not exist in inference mode, and half precision is too coarse for the inner descent.
        with (
            torch.inference_mode(False),
            torch.set_grad_enabled(wants_graph),
            torch.autocast(z.device.type, enabled=False),
        ):
            problem = self._problem(z, mask, known)
            start = self._start(problem, init, generator)
            return self._minimise(problem, start, steps, trace, evaluate)

    def _problem(self, z: Tensor, mask: Tensor | None, known: Known | None) -> Objective:
        parameter = next(self.encoder.parameters(), z)
        z = _ordinary(z).to(parameter.dtype)
        problem = Objective(self.encoder, z, weight=self.init.weight)
        if known is not None:
            problem.values, problem.given = self._checked_known(known, z)
        if mask is not None:
            problem.mask = mask = self._checked_mask(mask, z)
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
            shape = (len(z), self.size, self.dim)
            if init.shape not in (shape, shape[1:]):
                raise ValueError(f"init is {list(init.shape)}, the decoder takes {list(shape)} or {list(shape[1:])}")
            start = _ordinary(init).to(z).expand(shape)
        if self.init.weight:
            problem.start = start
        return start

    def _minimise(self, problem: Objective, start: Tensor, steps: int, trace: bool, evaluate: bool) -> Solution:
        descent = Descent(problem, self.solver, self.constraint, start)
        recorder = Recorder()
        if trace:
            descent.watch = recorder
        if torch.is_grad_enabled() and _requires_grad(problem, start):
            sets = self.adjoint.run(descent, steps)
        else:
            descent.run(steps)
            sets = descent.sets
        loss, grad = problem.gradient(sets) if evaluate else (descent.loss, descent.grad)
        finite = loss.isfinite() & _finite(sets.detach()) & _finite(grad)
        if not finite.all():
            return self._rescue(problem, start, steps, trace, evaluate, finite)
        if trace:
            recorder(sets, loss, grad)
        clipped = descent.clipped / descent.t
        return Solution(sets, loss, set_norm(grad), clipped, ~finite, recorder.trace(steps) if trace else None)

    def _rescue(
        self, problem: Objective, start: Tensor, steps: int, trace: bool, evaluate: bool, finite: Tensor
    ) -> Solution:
        """Solve again for the examples that stayed finite, and give the others their best finite iterate.

        The diverged may not even be part of the graph: zero times NaN is NaN in the gradient of a parameter.
        """
        lost = ~finite
        descent = Descent(problem.select(lost), self.solver, self.constraint, start[lost].detach())
        best, recorder = BestFinite(descent), Recorder()

        def watch(sets: Tensor, loss: Tensor, grad: Tensor) -> None:
            best(sets, loss, grad)
            if trace:
                recorder(sets, loss, grad)

        descent.watch = watch
        descent.run(steps)
        way = recorder.trace(steps) if trace else None
        parts = [(lost, Solution(best.sets, best.loss, best.grad_norm, descent.clipped / steps, lost[lost], way))]
        if finite.any():
            survivors = self._minimise(problem.select(finite), start[finite], steps, trace, evaluate)
            parts.append((finite, survivors))
        return merge(parts)

    def _check_vectors(self, z: Tensor) -> None:
        if not isinstance(z, Tensor) or z.ndim != 2 or not z.is_floating_point():
            found = f"{list(z.shape)} {z.dtype}" if isinstance(z, Tensor) else type(z).__name__
            raise ValueError(f"z is {found}, the decoder takes vectors [batch, latent] of floating point numbers")
        parameter = next(self.encoder.parameters(), z)
        if z.device != parameter.device:
            raise ValueError(f"z is on {z.device}, the encoder on {parameter.device}: move one of them")
        if z.dtype not in (parameter.dtype, torch.float16, torch.bfloat16):  # half precision comes from autocast
            raise ValueError(f"z is {z.dtype}, the encoder {parameter.dtype}: convert one of them")
        finite = z.detach().isfinite().all(dim=1)
        if not finite.all():
            example = int((~finite).nonzero()[0])
            raise ValueError(f"z of example {example} holds NaN or infinity: look at the network before the decoder")

    def _checked_mask(self, mask: Tensor, z: Tensor) -> Tensor:
        if mask.shape != (len(z), self.size) or mask.dtype != torch.bool:
            raise ValueError(
                f"mask is {list(mask.shape)} {mask.dtype}, the decoder takes [{len(z)}, {self.size}] torch.bool"
            )
        if not takes_mask(self.encoder):
            raise ValueError(
                f"{type(self.encoder).__name__} takes no mask: give its forward a second argument to decode sets of "
                "different sizes"
            )
        return _ordinary(mask).to(z.device)

    def _checked_known(self, known: Known, z: Tensor) -> Known:
        values, given = known
        shape = torch.Size((len(z), self.size, self.dim))
        try:
            values, given = torch.broadcast_to(values, shape), torch.broadcast_to(given, shape)
        except RuntimeError:
            raise ValueError(
                f"known holds values {list(values.shape)} and a mask {list(given.shape)}: both must fit {list(shape)}"
            ) from None
        if given.dtype != torch.bool:
            raise ValueError(f"the mask of known is {given.dtype}, it must be torch.bool")
        values, given = _ordinary(values).to(z), _ordinary(given).to(z.device)
        if not values.detach().isfinite().logical_or(~given).all():
            raise ValueError("known holds NaN or infinity where it says a value is given")
        return values, given

    def extra_repr(self) -> str:
        lines = [f"size={self.size}, dim={self.dim}", f"solver={self.solver}", f"adjoint={self.adjoint}"]
        return ",\n".join(lines if self.constraint is None else [*lines, f"constraint={self.constraint}"])


class iDSPN(SetDecoder):
    """Implicit DSPN: Nesterov momentum, and the gradient of one step at the solution. Memory does not grow with T.

    >>> encoder = torch.nn.Sequential(torch.nn.Flatten(1), torch.nn.Linear(6, 4))
    >>> iDSPN(encoder, size=3, dim=2)(torch.zeros(1, 4)).shape
    torch.Size([1, 3, 2])
    """


class DSPN(SetDecoder):
    """Deep set prediction network: plain gradient descent, differentiated through every iteration."""

    def __init__(
        self,
        encoder: nn.Module,
        size: int,
        dim: int,
        solver: Solver | None = None,
        init: Init | None = None,
        constraint: Constraint | None = None,
        adjoint: Adjoint | None = None,
    ):
        solver = GradientDescent(steps=10) if solver is None else solver
        super().__init__(encoder, size, dim, solver, init, constraint, adjoint or Unrolled())


def _finite(sets: Tensor) -> Tensor:
    return sets.isfinite().all(dim=2).all(dim=1)


def _ordinary(tensor: Tensor) -> Tensor:
    """The tensor as autograd can use it: one made in inference mode cannot be part of a graph."""
    return tensor.clone() if tensor.is_inference() else tensor


def _requires_grad(problem: Objective, start: Tensor) -> bool:
    tensors = (problem.z, problem.values, start, *problem.encoder.parameters())
    return any(t is not None and t.requires_grad for t in tensors)


def _check_encoder(encoder: nn.Module, size: int, dim: int) -> None:
    for name, own in (("size", size), ("dim", dim)):
        other = getattr(encoder, name, own)
        if isinstance(other, int) and other != own:
            raise ValueError(f"the encoder is built for {name}={other}, the decoder for {name}={own}: they must agree")

"""A predictor in plain tensor operations, inner loop and all, for files that run elsewhere.

One inner iteration is recorded with the gradient inside it written out, and the loop around it becomes an operator of
the graph, so that the number of iterations stays an input. What is recorded is the library's own loop (`descent.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch._ops import OpOverload
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule
from torch.fx.experimental import _config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.dialect.common.cse_pass import CSEPass

from ..decoder import BLOWN_UP, SetDecoder
from ..descent import Descent
from ..errors import UsageError
from ..inits import GuessedInit
from ..kernels.simplex import torch_project_simplex
from ..kernels.sorting import torch_collect, torch_route
from ..objective import Objective
from ..predictor import SetPredictor
from ..proposals import Proposer
from ..solvers import GradientDescent, Nesterov

Tensors = tuple[Tensor, ...]

# Our compiled operations as others can run them.
PLAIN: dict[OpOverload, Callable[..., Any]] = {
    torch.ops.setpred.collect.default: torch_collect,
    torch.ops.setpred.route.default: torch_route,
    torch.ops.setpred.project_simplex.default: torch_project_simplex,
}


def exported(predictor: SetPredictor, example: Tensor, mask: Tensor | None = None) -> ExportedProgram:
    """The predictor as a graph for any batch: inputs, initial sets, iterations (and a mask) → sets, and who diverged.

    Every example starts once, from the given start: a `Restart` of the decoder is left out. A `Proposer`, such as
    `ImageReader`, has no initial sets, no iterations and nothing that diverges: its graph takes the input alone,
    images of one size.

    Args:
        predictor: with a decoder whose solver is `Nesterov` or `GradientDescent`, its step size a number, or with a
            `Proposer` and no decoder.
        example: an input, `[1, …]`; only its shape matters.
        mask: for input sets of different sizes, `[1, elements]`.
    """
    if not isinstance(predictor, SetPredictor):
        kind = type(predictor).__name__
        raise UsageError(f"a {kind} cannot be exported alone: put it into a SetPredictor with an encoder and a schema")
    predictor = deepcopy(predictor).cpu().eval().requires_grad_(False)
    inputs = _twice(predictor.prepared(example.cpu()))
    masks = () if mask is None else (_twice(mask.cpu()),)
    if isinstance(predictor.encoder, Proposer) and predictor.decoder is None:
        with torch.no_grad():
            shapes = ({0: Dim("batch")},) * (1 + len(masks))
            program = torch.export.export(predictor.encoder, (inputs, *masks), dynamic_shapes=shapes)
            return program.run_decompositions(PLAIN)
    model = PlainPredictor(predictor, inputs, *masks)
    arguments = (inputs, model.start, torch.tensor(2), *masks)
    batch = {0: Dim("batch")}
    dimensions = (batch, batch, None, *(batch for _ in masks))
    with torch.no_grad():
        program = torch.export.export(model, arguments, dynamic_shapes={"arguments": dimensions})
        return program.run_decompositions(PLAIN)


class PlainPredictor(nn.Module):
    """What is exported: the encoder, then the recorded iteration in a loop."""

    def __init__(self, predictor: SetPredictor, inputs: Tensor, mask: Tensor | None = None):
        super().__init__()
        decoder = _checked(predictor)
        self.encoder, self.inner = predictor.encoder, Iteration(decoder)
        z = predictor.encode(inputs, mask)
        self.start = decoder.init(len(z), z).clone()
        self.guess = decoder.init if isinstance(decoder.init, GuessedInit) else None
        carried = self.inner.begin(z, self.start)
        self.begin = _recorded(self.inner.begin, z, self.start)
        self.step = _recorded(self.inner.step, z, self.start, *carried)
        self.settles = decoder.solver.planned(1) is not decoder.solver
        if self.settles:
            self.last = _recorded(self.inner.last, z, self.start, *carried)

    def forward(self, *arguments: Tensor) -> tuple[Tensor, Tensor]:
        inputs, start, steps, *mask = arguments
        z = self.encoder(inputs, *mask)
        if self.guess is not None:
            start = start + self.guess(z.shape[0], z)

        def unfinished(t: Tensor, *carried: Tensor) -> Tensor:
            return t < steps - 1 if self.settles else t < steps

        def iterate(t: Tensor, *carried: Tensor) -> Tensors:
            return (t + 1, *self.step(z, start, *carried))

        first = (torch.zeros_like(steps), *self.begin(z, start))
        _, *carried = while_loop(unfinished, iterate, first)
        return guarded(z, self.last(z, start, *carried) if self.settles else tuple(carried))


def guarded(z: Tensor, carried: Tensors) -> tuple[Tensor, Tensor]:
    """The sets, and which examples diverged by the rule of the decoder; these get their best finite iterate."""
    sets, *_, first, last, _, best = carried
    usual = first + 0.5 * z.square().mean(dim=1)
    fine = last.isfinite() & (last <= BLOWN_UP * usual) & _finite(sets)
    return torch.where(fine[:, None, None], sets, best), ~fine


def _finite(sets: Tensor) -> Tensor:
    """Which examples are finite, `[batch]`, without a question that Python would have to answer."""
    return sets.flatten(1).isfinite().all(dim=1)


class Iteration:
    """The inner loop as functions of tensors: what is carried from one iteration to the next.

    That is the sets, the solver's state and who still moves, if there are such; then the first, the last and the lowest
    inner loss, and the sets that have the lowest.
    """

    def __init__(self, decoder: SetDecoder):
        self.decoder = decoder

    def begin(self, z: Tensor, start: Tensor) -> Tensors:
        """The initial sets where they may be, with the solver's state and who still moves, if there are such."""
        descent = self._descent(z, start)
        if self.decoder.solver.tol is not None:
            descent.running = z.new_ones(z.shape[0], dtype=torch.bool)
        unknown = z.new_full((z.shape[0],), torch.nan)
        best = descent.sets + 0.0  # not a clone: the one that is carried already would be taken for the same tensor
        return (*self._carried(descent), unknown, unknown.clone(), z.new_full((z.shape[0],), torch.inf), best)

    def step(self, z: Tensor, start: Tensor, *carried: Tensor) -> Tensors:
        return self._advanced(self._descent(z, start), carried)

    def last(self, z: Tensor, start: Tensor, *carried: Tensor) -> Tensors:
        """The last step, where it differs from the others."""
        descent = self._descent(z, start)
        descent.solver = descent.solver.planned(1)
        return self._advanced(descent, carried)

    def _advanced(self, descent: Descent, carried: Tensors) -> Tensors:
        *rest, first, _, lowest, best = carried
        descent.sets = rest.pop(0)
        if descent.state is not None:
            descent.state = rest.pop(0)
        if rest:
            descent.running = rest.pop(0)
        loss, grad = descent.objective.gradient(descent.sets)
        better = (loss < lowest) & _finite(descent.sets)
        best = torch.where(better[:, None, None], descent.sets, best)
        descent.advance(loss, grad)
        first, lowest = torch.where(first.isnan(), loss, first), torch.where(better, loss, lowest)
        return (*self._carried(descent), first, loss.clone(), lowest, best)

    def _descent(self, z: Tensor, start: Tensor) -> Descent:
        decoder = self.decoder
        objective = Objective(decoder.encoder, z, weight=decoder.init.weight)
        if decoder.init.weight:
            objective.start = start
        return Descent(objective, decoder.solver, decoder.constraint, start, decoder.init.projected)

    @staticmethod
    def _carried(descent: Descent) -> Tensors:
        # Cloned: what a loop carries may not be its input again.
        return tuple(t.clone() for t in (descent.sets, descent.state, descent.running) if t is not None)


def _recorded(function: Callable[..., Tensors], *examples: Tensor) -> GraphModule:
    """The function as a graph of torch's operations, for any batch, with its gradients written out."""

    def free(*tensors: Tensor) -> Tensors:  # not a method, whose first argument would be taken for a tensor
        return function(*tensors)

    # A batch of two has nothing to do with elements of two numbers.
    with _config.patch(use_duck_shape=False):  # type: ignore[attr-defined]
        graph = make_fx(free, PLAIN, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*examples)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    shared = CSEPass()(graph)  # the gradient sorts what the encoding has sorted already
    return graph if shared is None else shared.graph_module


def _checked(predictor: SetPredictor) -> SetDecoder:
    decoder = predictor.decoder
    if decoder is None:
        raise UsageError(f"{type(predictor.encoder).__name__} has no inner loop to export: take a model with a decoder")
    solver = decoder.solver
    if type(solver) not in (GradientDescent, Nesterov):
        raise UsageError(f"{type(solver).__name__} cannot be exported: use Nesterov or GradientDescent")
    for name in ("lr", "momentum"):
        if callable(getattr(solver, name, None)):
            raise UsageError(f"solver.{name} is a function, which cannot be exported: use a number")
    return decoder


def _twice(tensor: Tensor) -> Tensor:
    """A batch of two: torch takes a dimension of 1 for a constant."""
    return torch.cat([tensor[:1], tensor[:1]])

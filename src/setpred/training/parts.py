"""From the names in the settings to the objects of the library."""

from typing import Any

import torch

from ..adjoints import Adjoint, ConjugateGradient, Identity, Unrolled
from ..constraints import Constraint, Fields, Simplex
from ..decoder import SetDecoder
from ..encoders import RelationEncoder, SetEncoder
from ..errors import UsageError, unknown
from ..inits import GuessedInit, Init, LearnedInit, RandomInit, ZeroInit
from ..pooling import POOLS
from ..restart import Restart
from ..schema import Schema
from ..solvers import GradientDescent, Nesterov, Solver, TorchOptimizer
from .iterations import iterations_at
from .settings import AdjointSettings, InitSettings, NetSettings, RestartSettings, Settings, SolverSettings

ADJOINTS = ("identity", "conjugate-gradient", "unrolled")
INITS = ("random", "learned", "guessed", "zero")
SOLVERS = ("nesterov", "gradient-descent", "Adam", "RMSprop", "SGD", "Adagrad")
CONSTRAINTS = ("none", "simplex")
OF_SCHEMA = ("usual", "fields", "none")


def make_solver(s: SolverSettings) -> Solver:
    eval_steps = s.eval_steps
    if s.schedule is not None:
        iterations_at(s.schedule, 0, 1)  # says what is wrong with it before training begins
        eval_steps = eval_steps or s.steps
    shared: dict[str, Any] = {name: getattr(s, name) for name in ("steps", "lr", "clip", "tol", "exact_steps")}
    shared["eval_steps"] = eval_steps
    if s.settle and s.name != "nesterov":
        raise UsageError(f"solver.settle is for nesterov, {s.name} has no momentum to leave out: solver.settle=false")
    if s.name == "nesterov":
        return Nesterov(momentum=s.momentum, settle=s.settle, **shared)
    if s.name == "gradient-descent":
        return GradientDescent(**shared)
    optimizer = getattr(torch.optim, s.name, None)
    if not (isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer)):
        raise unknown("solver.name", s.name, SOLVERS)
    return TorchOptimizer(optimizer, **shared)


def make_adjoint(s: AdjointSettings) -> Adjoint:
    if s.name == "identity":
        return Identity(s.straight)
    if s.name == "conjugate-gradient":
        return ConjugateGradient(s.steps, s.gamma)
    if s.name == "unrolled":
        return Unrolled()
    raise unknown("adjoint.name", s.name, ADJOINTS)


def make_init(s: InitSettings, latent: int) -> Init:
    if s.name == "random":
        return RandomInit(s.std)
    if s.name == "learned":
        return LearnedInit(s.std, s.weight)
    if s.name == "guessed":
        return GuessedInit(latent)
    if s.name == "zero":
        return ZeroInit()
    raise unknown("init.name", s.name, INITS)


def make_restart(s: RestartSettings) -> Restart | None:
    return None if s.share is None else Restart(s.share, s.std)


def make_constraint(name: str | None, schema: Schema | None = None) -> Constraint | None:
    """With a schema, `fields` keeps each field where it can be, `usual` only where no absent elements are zero."""
    if name is None:
        return None
    if schema is not None:
        if name not in OF_SCHEMA:
            raise unknown("net.constraint", name, OF_SCHEMA)
        return schema.constraint(even_absent=name == "fields")
    if name == "simplex":
        return Simplex()
    raise unknown("net.constraint", name, CONSTRAINTS)


def make_encoder(s: NetSettings, dim: int, size: int) -> SetEncoder | RelationEncoder:
    """The inner encoder, of elements of `dim` numbers."""
    if s.pool not in POOLS:
        raise unknown("net.pool", s.pool, POOLS)
    encoder = RelationEncoder if s.relation else SetEncoder
    return encoder(dim, s.hidden, s.latent, size, s.pool)


def make_decoder(settings: Settings, size: int, dim: int, known: int = 0, schema: Schema | None = None) -> SetDecoder:
    """The decoder of sets of `size` elements of `dim` numbers; the first `known` are given and free of constraints."""
    if known and settings.init.name == "guessed":
        raise UsageError("init.name=guessed does not see what is given of each element: use init.name=random")
    constraint = make_constraint(settings.net.constraint, schema)
    if constraint is not None and known:
        constraint = Fields({(known, dim): constraint})
    return SetDecoder(
        make_encoder(settings.net, dim, size),
        size=size,
        dim=dim,
        solver=make_solver(settings.solver),
        init=make_init(settings.init, settings.net.latent),
        constraint=constraint,
        adjoint=make_adjoint(settings.adjoint),
        restart=make_restart(settings.restart),
    )

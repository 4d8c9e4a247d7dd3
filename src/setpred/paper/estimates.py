"""What a run costs before it is trained: its multiplications, at the speed of a machine that was measured."""

from collections.abc import Mapping
from typing import Any

from ..tasks.schedules import iterations_at

PER_SECOND = 1e11
"""Multiplications that two cores with AVX-512 do in a second of a training step (`results/bench/bench.json`)."""
OVERHEAD = 0.02
"""Seconds of a step in which nothing is multiplied."""
UNROLLED = 4.5
"""How much longer an iteration takes that is differentiated through."""
IMAGE = 0.6e9
"""Multiplications of an image encoder at 128×128 pixels; the convolutions of slot models are as many."""
BACKWARD = 3
"""A layer and its gradients, in multiples of the layer."""


def step_seconds(settings: Mapping[str, Any]) -> float:
    """Of a training step, right within a factor of two or so; settings are flat, as `flatten` makes them.

    >>> from ..tasks import make_settings
    >>> from ..tasks.settings import flatten, to_dict
    >>> step_seconds(flatten(to_dict(make_settings("autoencoding", "idspn", "paper")))) < 0.1
    True
    """
    return OVERHEAD + settings["optim.batch"] * BACKWARD * _multiplications(settings) / PER_SECOND


def _multiplications(settings: Mapping[str, Any]) -> float:
    """Of one example, forwards; those of rivals weigh more, as measured, since their matrices are small."""
    task, model, hidden = settings["task"], settings["model"], settings["net.hidden"]
    if task == "clevr":
        n, dim, into = 10, 19, 19
        outside = IMAGE * (settings["data.size"] / 128) ** 2 * (settings["net.width"] / 64) ** 2
        if model.startswith("slot"):
            return IMAGE * (settings["data.size"] / 128) ** 2
        if not settings["data.images"]:
            outside = _of_encoder(n, into, settings)
    elif task == "numbering":
        n, into = settings["data.n"], settings["data.classes"]
        dim = n + into
        if model == "deepsets":
            return n * hidden * dim
        if model == "bilstm":
            return n * 100 * hidden**2
        if model.startswith("transformer"):
            return n * (150 * hidden**2 + 40 * n * hidden)
        outside = _of_encoder(n, into, settings)
    else:
        n, dim = settings["data.n"], settings["data.d"]
        outside = _of_encoder(n, dim, settings)
    rows, width = (n**2, 2 * dim) if settings["net.relation"] else (n, dim)
    weight = UNROLLED if settings["adjoint"] == "Unrolled" else 1
    return outside + (_iterations(settings) * weight + 3) * _of_encoder(rows, width, settings)


def _of_encoder(rows: int, dim: int, settings: Mapping[str, Any]) -> float:
    hidden, latent = settings["net.hidden"], settings["net.latent"]
    return rows * hidden * (dim + latent)


def _iterations(settings: Mapping[str, Any]) -> float:
    """Of an inner optimisation, on average over training."""
    schedule = settings["optim.iterations"]
    if schedule is None:
        return settings["solver.steps"]
    return sum(iterations_at(schedule, step, 100) for step in range(100)) / 100

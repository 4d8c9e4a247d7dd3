"""The parts of a decoder as settings: recipes, chosen by class and changed argument by argument, and then built.

What can be chosen are the public classes of a kind, and what can be changed are the arguments of their constructors:
nothing about a part is written down here.
"""

import random
import re
from collections.abc import Mapping
from difflib import get_close_matches
from types import NoneType
from typing import TYPE_CHECKING, Any, get_origin

from torch import nn

from .. import PUBLIC
from ..adjoints import Adjoint
from ..constraints import Constraint, PerSlice
from ..data.synthetic import mixed_seed
from ..decoder import SetDecoder
from ..encoders import RelationEncoder, SetEncoder
from ..errors import UsageError, unknown
from ..inits import GuessedInit, Init
from ..pooling import POOLS
from ..recipes import arguments, build, classes_of, find_class, kinds, recipe, wanted
from ..restart import Restart
from ..solvers import Solver

if TYPE_CHECKING:
    from .settings import NetSettings, Settings

Recipe = dict[str, Any]

PARTS: dict[str, type] = {
    "solver": Solver,
    "adjoint": Adjoint,
    "init": Init,
    "constraint": Constraint,
    "restart": Restart,
}
SCHEDULE = re.compile(r"(?P<parts>[1-9]\d*(,[1-9]\d*)*)|(?P<random>random-)?(?P<low>[1-9]\d*)-(?P<high>[1-9]\d*)")
NEEDED = ("solver", "adjoint", "init")
UNROLLED = 4.5
"""How much longer an iteration takes that is differentiated through."""
WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def change_part(part: str, plain: Recipe | None, changes: Mapping[str, Any]) -> Recipe | None:
    """A recipe with another `class`, other arguments, or both; values may be text.

    Another class keeps the arguments that both have.

    >>> change_part("adjoint", {"class": "Unrolled"}, {"class": "ConjugateGradient", "gamma": "10"})
    {'class': 'ConjugateGradient', 'steps': 10, 'gamma': 10.0}
    >>> change_part("adjoint", {"class": "Unrolled"}, {"gamma": "10"})
    Traceback (most recent call last):
    setpred.errors.UsageError: adjoint.gamma is for ConjugateGradient, not Unrolled: set adjoint=ConjugateGradient too
    """
    changes = dict(changes)
    if "class" in changes:
        plain = _chosen(part, changes.pop("class"), plain)
    if plain is None:
        if changes:
            example = next(iter(_classes(part)))
            raise UsageError(f"{part}.{next(iter(changes))} needs a {part}: set {part}={example} too")
        return None
    known = arguments(_classes(part)[plain["class"]])
    for name, value in changes.items():
        if name not in known:
            raise _no_argument(part, name, plain["class"])
        plain = {**plain, name: _converted(f"{part}.{name}", value, known[name].hint)}
    return plain


def build_part(part: str, plain: Recipe | None, **surroundings: Any) -> Any:
    """The object of a recipe; arguments that it lacks come from the surroundings, as the length of z does."""
    if plain is None:
        return None
    known = arguments(_classes(part)[plain["class"]])
    lacking = {name for name, argument in known.items() if argument.required and name not in plain}
    return build({**plain, **{name: surroundings[name] for name in lacking & surroundings.keys()}}, part)


def make_decoder(
    settings: "Settings", size: int, dim: int, known: int = 0, constraint: Constraint | None = None
) -> SetDecoder:
    """The decoder that settings describe, for sets of `size` elements of `dim` numbers.

    Args:
        settings: of the parts and of the inner encoder.
        size: elements of a set.
        dim: numbers of an element.
        known: how many numbers of each element, the first ones, are given and free of constraints.
        constraint: what holds where the settings name none.
    """
    surroundings = {"latent": settings.net.latent, "size": size, "dim": dim}
    parts = {part: build_part(part, getattr(settings, part), **surroundings) for part in PARTS}
    parts["constraint"] = parts["constraint"] or constraint
    if known and isinstance(parts["init"], GuessedInit):
        raise UsageError("init=GuessedInit does not see what is given of each element: use init=RandomInit")
    if known and parts["constraint"] is not None:
        parts["constraint"] = PerSlice({(known, dim): parts["constraint"]})
    if settings.optim.iterations is not None:
        iterations_at(settings.optim.iterations, 0, 1)  # says what is wrong with it before training begins
        parts["solver"].eval_steps = parts["solver"].iterations()
    return SetDecoder(make_encoder(settings.net, dim, size), **parts)


def iterations_at(schedule: str, step: int, steps: int, seed: int = 0) -> int:
    """The inner iterations of training step `step` of `steps`.

    | schedule | iterations |
    |---|---|
    | `20,40` | 20 in the first half of training, 40 in the second; any number of equal parts |
    | `1-40` | evenly from 1 to 40 |
    | `random-20-40` | 20 to 40, drawn for each step |

    >>> [iterations_at("10,20,30,40", step, 8) for step in range(8)]
    [10, 10, 20, 20, 30, 30, 40, 40]
    >>> [iterations_at("1-4", step, 8) for step in range(8)]
    [1, 1, 2, 2, 3, 3, 4, 4]
    """
    found = SCHEDULE.fullmatch(schedule)
    if found is None or (found["low"] and int(found["low"]) > int(found["high"])):
        raise UsageError(f"optim.iterations={schedule} cannot be read: write 20,40 or 1-40 or random-20-40")
    if found["parts"]:
        choices = [int(part) for part in found["parts"].split(",")]
    else:
        choices = list(range(int(found["low"]), int(found["high"]) + 1))
    if found["random"]:
        return random.Random(mixed_seed(seed, step)).choice(choices)
    return choices[min(step * len(choices) // steps, len(choices) - 1)]


def make_encoder(net: "NetSettings", dim: int, size: int) -> SetEncoder | RelationEncoder:
    """The inner encoder, of elements of `dim` numbers."""
    encoder, rows = (RelationEncoder, size**2) if net.relation else (SetEncoder, size)
    return encoder(dim, net.hidden, net.latent, size, make_pool(net.pool, net.latent, rows))


def make_pool(name: str, channels: int, size: int) -> str | nn.Module:
    """A pooling by the short name that encoders know, or by its class."""
    if name in POOLS:
        return name
    cls = find_class(name) if name.endswith("Pool") else None
    if cls is None:
        raise unknown("net.pool", name, [*POOLS, *(public for public in PUBLIC if public.endswith("Pool"))])
    around = {"channels": channels, "size": size}
    return build({"class": name, **{key: around[key] for key in arguments(cls) if key in around}}, "net.pool")


def decoder_multiplications(flat: Mapping[str, Any], n: int, dim: int) -> float:
    """Those of decoding a set of n elements in training, about; settings are flat, as `flatten` makes them."""
    rows, width = (n**2, 2 * dim) if flat["net.relation"] else (n, dim)
    weight = UNROLLED if flat["adjoint"] == "Unrolled" else 1
    return (_mean_iterations(flat) * weight + 3) * encoder_multiplications(flat, rows, width)


def encoder_multiplications(flat: Mapping[str, Any], rows: int, dim: int) -> float:
    """Those of encoding a set of so many elements, or pairs of them."""
    hidden, latent = flat["net.hidden"], flat["net.latent"]
    return rows * hidden * (dim + latent)


def _mean_iterations(flat: Mapping[str, Any]) -> float:
    schedule = flat["optim.iterations"]
    if schedule is None:
        return flat["solver.steps"]
    return sum(iterations_at(schedule, step, 100) for step in range(100)) / 100


def _classes(part: str) -> dict[str, type]:
    return classes_of(PARTS[part])


def _chosen(part: str, choice: Any, before: Recipe | None) -> Recipe | None:
    """The recipe of a class by its name, of an object, or of nothing."""
    if choice is None or choice == "none":
        if part in NEEDED:
            raise UsageError(f"{part}=none: a decoder needs one, choose from {', '.join(_classes(part))}")
        return None
    if isinstance(choice, PARTS[part]):
        return recipe(choice, part)
    if choice not in _classes(part):
        raise unknown(part, str(choice), _classes(part))
    known = arguments(_classes(part)[choice])
    defaults = {name: argument.default for name, argument in known.items() if not argument.required}
    kept = {name: value for name, value in (before or {}).items() if name in known}
    return {"class": choice, **defaults, **kept}


def _no_argument(part: str, name: str, chosen: str) -> UsageError:
    users = [other for other, cls in _classes(part).items() if name in arguments(cls)]
    if users:
        return UsageError(f"{part}.{name} is for {' and '.join(users)}, not {chosen}: set {part}={users[0]} too")
    known = [f"{part}.{each}" for each in arguments(_classes(part)[chosen])]
    near = get_close_matches(f"{part}.{name}", known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"{chosen} has {', '.join(known) or 'no settings'}"
    return UsageError(f"unknown setting '{part}.{name}': {hint}")


def _converted(where: str, value: Any, hint: Any) -> Any:
    """A value, or the text that stands for it, as the type of an argument wants it."""
    known = kinds(hint)
    if value is None or (isinstance(value, str) and value.lower() == "none"):
        if NoneType not in known and Any not in known:
            raise UsageError(f"{where}=none: it needs a value")
        return None
    if isinstance(value, Mapping | list):  # of a file: a recipe already
        return value
    if any(get_origin(kind) is type for kind in known):
        return {"class": "torch.optim", "name": str(value)} if isinstance(value, str) else recipe(value, where)
    if bool in known and (isinstance(value, bool) or str(value).lower() in WORDS):
        return value if isinstance(value, bool) else WORDS[str(value).lower()]
    number = _number(value)
    if number is not None and float in known:
        return number
    if number is not None and int in known and number.is_integer():
        return int(number)
    if isinstance(value, str) and str in known:
        return value
    raise UsageError(f"{where}={str(value)[:100]!r}: it is {wanted(hint) or 'not to be changed here'}")


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None

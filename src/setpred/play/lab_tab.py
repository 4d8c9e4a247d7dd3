"""The equivariance lab: f(PX) beside Pf(X), the P2 that makes them agree, and the verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from .. import equivariance
from ..equivariance import Report
from ..errors import UsageError, unknown
from ..views.view import numbers
from .points_tab import Coordinate
from .snippets import lab_code

MOST = 6

SetFunction = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Subject:
    """A function to look at: of elements of `dim` numbers, by the code that makes it, which is also what is shown."""

    title: str
    dim: int
    code: str


DECODER = """\
from copy import deepcopy
from setpred.play import pretrained

model = deepcopy(pretrained("points-{pool}")).double()  # in float64 rounding decides nothing
inner = sp.SetDecoder(model.decoder.encoder, solver=sp.Nesterov(steps=10))


@torch.no_grad()
def f(start):  # the decoder, as a function of its initial set; z is that of a ring
    angle = torch.arange(start.shape[1], dtype=torch.float64) * 2 * torch.pi / start.shape[1]
    ring, mask = sp.pad_sets([torch.stack([angle.cos(), angle.sin()], dim=1)] * len(start), size=16)
    start = torch.nn.functional.pad(start, (0, 0, 0, 16 - start.shape[1]))
    return inner.solve(model.encode(ring, mask), mask, init=start).sets[:, : int(mask[0].sum())]

"""
RIVAL = """\
torch.manual_seed(0)
f = sp.baselines.{call}.double().eval()  # with random weights

"""
SUBJECTS = {
    "push_apart": Subject("push_apart", 1, "f = sp.equivariance.push_apart"),
    "sort_jacobian": Subject("Jacobian of sorting", 1, "f = sp.equivariance.sort_jacobian"),
    "fs": Subject("Decoder with FSPool", 2, DECODER.format(pool="fs")),
    "sum": Subject("Decoder with sum pooling", 2, DECODER.format(pool="sum")),
    "mean": Subject("Decoder with mean pooling", 2, DECODER.format(pool="mean")),
    "deepsets": Subject("DeepSets", 1, RIVAL.format(call="DeepSets(dim=1, out=1, hidden=16)")),
    "transformer": Subject(
        "Transformer with positions", 1, RIVAL.format(call='Transformer(1, 1, "sinusoidal", width=16)')
    ),
    "running_total": Subject("running total", 1, "f = lambda X: X.cumsum(dim=1)\n"),
}


class LabRequest(BaseModel):
    """A multiset, a permutation of it, and the function to ask."""

    subject: Annotated[str, Field(max_length=40)]
    X: Annotated[list[Annotated[list[Coordinate], Field(max_length=MOST)]], Field(min_length=2, max_length=MOST)]
    order: Annotated[list[Annotated[int, Field(ge=0, lt=MOST)]], Field(max_length=MOST)]


def look(request: LabRequest) -> dict[str, Any]:
    """Both sides of the equation at this input, and the verdict over many inputs."""
    if request.subject not in SUBJECTS:
        raise unknown("function", request.subject, SUBJECTS)
    subject, n = SUBJECTS[request.subject], len(request.X)
    if any(len(row) != subject.dim for row in request.X):
        raise UsageError(f"{subject.title} takes elements of {subject.dim} numbers")
    if sorted(request.order) != list(range(n)):
        raise UsageError(f"the order {request.order} is no permutation of 0 to {n - 1}")
    f, X, p = function(request.subject), torch.tensor(request.X, dtype=torch.float64), torch.tensor(request.order)
    here, everywhere = equivariance.check(f, X, permutations=p[None]), verdict(request.subject, n)
    out, of_permuted = f(X[None])[0], f(X[p][None])[0]
    p2 = p if here.witness is None else here.witness.p2
    return {
        "out": numbers(out),
        "of_permuted": numbers(of_permuted),
        "permuted": numbers(out[p]),
        "p2": None if p2 is None else p2.tolist(),
        "equal": here.witness is None,
        "deviation": 0.0 if here.witness is None else here.witness.deviation,
        "verdict": everywhere.verdict,
        "report": str(everywhere),
        "code": lab_code(subject.code, request.X, request.order),
    }


@cache
def function(name: str) -> SetFunction:
    """The function that a subject's code defines: ours, so what is shown is what runs."""
    names: dict[str, Any] = {}
    with torch.random.fork_rng(devices=[]):
        exec(f"import torch\nimport setpred as sp\n{SUBJECTS[name].code}", names)  # only what stands in this file
    return names["f"]


@cache
def verdict(name: str, n: int) -> Report:
    """Over sets where functions show what they are; few, because someone waits."""
    return equivariance.check(function(name), equivariance.hard_sets(n, SUBJECTS[name].dim, copies=1))

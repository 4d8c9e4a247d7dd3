"""Sets of points: encoded, decoded from a random start by each model, every iterate judged."""

from typing import Annotated, Any

import torch
from pydantic import BaseModel, Field

from ..decoder import SetDecoder
from ..ragged import pad_sets
from ..solvers import Nesterov
from ..views.points import followed
from .snippets import points_code
from .zoo import pretrained

POOLS = ("fs", "sum", "mean")
SIZE = 16

Coordinate = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]


class PointsRequest(BaseModel):
    """A set of points, and how it is to be decoded again."""

    points: Annotated[list[tuple[Coordinate, Coordinate]], Field(min_length=1, max_length=SIZE)]
    iterations: Annotated[int, Field(ge=1, le=200)] = 40
    momentum: Annotated[float, Field(ge=0, le=0.99)] = 0.9
    step: Annotated[float, Field(gt=0, le=5)] = 1.0
    spread: Annotated[float, Field(ge=0, le=3)] = 0.5
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0


def decode_points(request: PointsRequest) -> dict[str, Any]:
    """The way of each model from the same start, and the code that makes it."""
    return {
        "models": {pool: decode_with(pool, request) for pool in POOLS},
        "code": points_code(**request.model_dump()),
    }


@torch.no_grad()
def decode_with(pool: str, request: PointsRequest) -> dict[str, Any]:
    """The iterates of one model, the target that each point is matched with, inner loss and set error."""
    model = pretrained(f"points-{pool}")
    assert model.decoder is not None
    target = torch.tensor(request.points)
    sets, mask = pad_sets([target], size=SIZE)
    solver = Nesterov(request.iterations, lr=request.step, momentum=request.momentum)
    decoder = SetDecoder(model.decoder.encoder, solver=solver)
    start = request.spread * torch.randn(SIZE, 2, generator=torch.Generator().manual_seed(request.seed))
    solution = decoder.solve(model.encode(sets, mask), mask, init=start, trace=True)
    assert solution.trace is not None
    return followed(solution.trace, target)

"""What it costs to match two elements, and the costs of all pairs of two sets."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .kernels.jit import uncompiled
from .kernels.pairs import sum_differences

Cost = Callable[[Tensor, Tensor], Tensor]


def _huber(prediction: Tensor, target: Tensor) -> Tensor:
    prediction, target = torch.broadcast_tensors(prediction, target)
    return F.huber_loss(prediction, target, reduction="none").mean(-1)


def _squared(prediction: Tensor, target: Tensor) -> Tensor:
    return (prediction - target).square().mean(-1)


def _euclidean(prediction: Tensor, target: Tensor) -> Tensor:
    return torch.linalg.vector_norm(prediction - target, dim=-1)


def _cross_entropy(prediction: Tensor, target: Tensor) -> Tensor:
    return -(prediction.log_softmax(-1) * target).sum(-1)


COSTS: dict[str, Cost] = {
    "huber": _huber,
    "squared": _squared,
    "euclidean": _euclidean,
    "cross_entropy": _cross_entropy,
}


@torch.no_grad()
def pairwise(prediction: Tensor, target: Tensor, cost: Cost) -> Tensor:
    """All costs, `[batch, n, m]`, of elements `[batch, n, dim]` and `[batch, m, dim]`, a block of them at a time."""
    with torch.autocast(prediction.device.type, enabled=False):
        if prediction.device.type != "cpu":
            # Large blocks: on an accelerator it is the number of launches that costs.
            return pairwise_blocks(prediction, target, cost, block=2**26)
        if cost is _cross_entropy:
            return -(prediction.log_softmax(-1) @ target.mT)
        if cost is _huber:
            return _pairwise_sums(prediction, target, huber=True).div_(prediction.shape[2])
        if cost is _squared:
            return _pairwise_sums(prediction, target, huber=False).div_(prediction.shape[2])
        if cost is _euclidean:
            return _pairwise_sums(prediction, target, huber=False).sqrt_()
        # Blocks that stay in the cache of a core.
        return pairwise_blocks(prediction, target, cost, block=2**20)


def pairwise_blocks(prediction: Tensor, target: Tensor, cost: Cost, block: int) -> Tensor:
    (batch, n, dim), m = prediction.shape, target.shape[1]
    matrix = prediction.new_empty(batch, n, m)
    examples = max(1, block // max(1, n * m * dim))
    rows = max(1, block // max(1, m * dim))
    for b in range(0, batch, examples):
        for i in range(0, n, rows):
            part = matrix[b : b + examples, i : i + rows]
            values = cost(prediction[b : b + examples, i : i + rows, None], target[b : b + examples, None])
            if values.shape != part.shape:
                raise ValueError(
                    f"cost returned shape {list(values.shape)} for broadcast elements, expected "
                    f"{list(part.shape)}: reduce the last dimension and keep the others"
                )
            part.copy_(values)
    return matrix


@uncompiled
def _pairwise_sums(prediction: Tensor, target: Tensor, huber: bool) -> Tensor:
    left, right = (sets.detach().contiguous().numpy() for sets in (prediction, target))
    return torch.from_numpy(sum_differences(left, right, huber))

"""Which predicted element belongs to which target element, and losses between sets.

A set has no order. The Hungarian loss compares prediction and target after the one-to-one match of least total cost;
the Chamfer loss compares each element with the nearest one of the other set. The match is found without a graph, and
only the cost of the matched pairs is differentiated.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .costs import COSTS, Cost, pairwise
from .kernels.jit import refuse_transforms, uncompiled
from .kernels.pairs import least_assignments
from .padding import masks_of_both
from .tensors import check_device, check_tensor, widest

Classes = Tensor | tuple[Tensor, Tensor]

# All costs of an example up to here can be added up in single precision.
LARGEST_COST = 1e30
# What a pair of different classes costs on top, where classes are to stay apart.
CLASS_PENALTY = 1e3


class Assignment(NamedTuple):
    """Matched pairs, as indices into the two sets. `k` is the size of the smaller set.

    Pairs are ordered by `prediction`. With masks an example may have fewer than `k` pairs: `mask` is true
    for the real ones, and the indices of the others are 0, so that gathering with them is always safe.
    """

    prediction: Tensor
    """[batch, k], int64"""
    target: Tensor
    """[batch, k], int64"""
    mask: Tensor
    """[batch, k], bool"""


def assign(
    cost: Tensor,
    mask: Tensor | None = None,
    *,
    prediction_mask: Tensor | None = None,
    target_mask: Tensor | None = None,
) -> Assignment:
    """Match predictions and targets one to one at the least total cost, example by example.

    `match` does the same for two sets instead of a cost matrix.

    Args:
        cost: [batch, n, m], of any real dtype and on any device; row i, column j is what it costs to match
            prediction i with target j.
        mask: [batch, n] bool, true where an element exists, in both sets; for sets of one size.
        prediction_mask: [batch, n] bool, where the predictions have a mask of their own.
        target_mask: [batch, m] bool, where the targets have a mask of their own.

    Returns:
        The pairs, on the device of `cost`. Every element of the smaller side is matched.

    >>> cost = torch.tensor([[[4.0, 1.0, 3.0], [2.0, 0.0, 5.0]]])
    >>> match = assign(cost)
    >>> match.prediction, match.target
    (tensor([[0, 1]]), tensor([[1, 0]]))
    >>> target = torch.tensor([[[10.0], [20.0], [30.0]]])
    >>> torch.take_along_dim(target, match.target[..., None], dim=1).squeeze(-1)
    tensor([[20., 10.]])
    """
    refuse_transforms("a match")
    check_tensor("cost", cost)
    if cost.ndim != 3:
        raise ValueError(f"cost has shape {list(cost.shape)}: expected [batch, predictions, targets]")
    if cost.is_complex():
        raise ValueError(f"cost is {cost.dtype}: expected real numbers")
    rows, columns = masks_of_both(mask, prediction_mask, target_mask, cost, cost.mT)
    _refuse_nonfinite(cost, rows, columns)
    return _solve(cost, rows, columns)


def match(
    prediction: Tensor,
    target: Tensor,
    cost: str | Cost = "huber",
    mask: Tensor | None = None,
    *,
    prediction_mask: Tensor | None = None,
    target_mask: Tensor | None = None,
    same_class: Classes | None = None,
) -> Assignment:
    """The one-to-one match of two sets with the least total cost, as in `hungarian_loss`, which has the same arguments.

    >>> sets = torch.tensor([[[0.0, 0.0], [3.0, 4.0]]])
    >>> match(sets, sets.flip(1)).target
    tensor([[1, 0]])
    """
    prediction, target, cost = _check_sets(prediction, target, cost)
    rows, columns = masks_of_both(mask, prediction_mask, target_mask, prediction, target)
    return _match(prediction, target, cost, rows, columns, same_class)


def hungarian_loss(
    prediction: Tensor,
    target: Tensor,
    cost: str | Cost = "huber",
    mask: Tensor | None = None,
    *,
    prediction_mask: Tensor | None = None,
    target_mask: Tensor | None = None,
    same_class: Classes | None = None,
) -> Tensor:
    """Mean cost of the matched pairs, under the match with the least total cost.

    Args:
        prediction: [batch, n, dim].
        target: [batch, m, dim].
        cost: `"huber"`, `"squared"` (both a mean over dim), `"euclidean"` (the norm: the loss is then a
            metric between sets of equal size), `"cross_entropy"` (predictions are logits, targets one-hot
            or class probabilities), or a function of `[..., dim]` and `[..., dim]` tensors that broadcasts
            them and reduces the last dimension.
        mask: [batch, n] bool, true where an element exists, in both sets; for sets of one size.
        prediction_mask: [batch, n] bool, where the predictions have a mask of their own.
        target_mask: [batch, m] bool, where the targets have a mask of their own.
        same_class: class numbers, [batch, n] for both sets or a pair of [batch, n] and [batch, m]. Elements of
            different classes are matched only if there is no other possibility, and then count with their plain cost.

    Returns:
        [batch]; 0 for an example without pairs.

    >>> sets = torch.tensor([[[0.0, 0.0], [3.0, 4.0]]])
    >>> hungarian_loss(sets, sets.flip(1))
    tensor([0.])
    >>> hungarian_loss(sets, torch.zeros(1, 2, 2), cost="euclidean")
    tensor([2.5000])
    >>> hungarian_loss(sets, sets.flip(1), cost="euclidean", same_class=torch.tensor([[0, 1]]))
    tensor([5.])
    """
    prediction, target, cost = _check_sets(prediction, target, cost)
    rows, columns = masks_of_both(mask, prediction_mask, target_mask, prediction, target)
    return _mean_over_pairs(prediction, target, _match(prediction, target, cost, rows, columns, same_class), cost)


def chamfer_loss(
    prediction: Tensor,
    target: Tensor,
    cost: str | Cost = "huber",
    mask: Tensor | None = None,
    *,
    prediction_mask: Tensor | None = None,
    target_mask: Tensor | None = None,
) -> Tensor:
    """Mean cost from each prediction to its nearest target, plus the same from each target.

    It is cheaper than the Hungarian loss and ignores how often an element occurs: {a, a, b} and {a, b, b} have distance
    0.
    Arguments and result are those of `hungarian_loss`.

    >>> chamfer_loss(torch.tensor([[[0.0], [0.0], [1.0]]]), torch.tensor([[[0.0], [1.0], [1.0]]]))
    tensor([0.])
    """
    prediction, target, cost = _check_sets(prediction, target, cost)
    rows, columns = masks_of_both(mask, prediction_mask, target_mask, prediction, target)
    matrix = pairwise(prediction, target, cost)
    _refuse_nonfinite(matrix, rows, columns, prediction, target)
    matrix.masked_fill_(~(rows[:, :, None] & columns[:, None, :]), torch.inf)

    def nearest(dim: int) -> Tensor:
        return matrix.min(dim).indices if matrix.shape[dim] else torch.zeros_like(matrix.sum(dim), dtype=torch.long)

    def itself(like: Tensor) -> Tensor:
        return torch.arange(like.shape[1], device=like.device).expand_as(like)

    both_exist = rows.any(1, keepdim=True) & columns.any(1, keepdim=True)
    from_predictions = Assignment(itself(rows), nearest(2), rows & both_exist)
    from_targets = Assignment(nearest(1), itself(columns), columns & both_exist)
    there = _mean_over_pairs(prediction, target, from_predictions, cost)
    back = _mean_over_pairs(prediction, target, from_targets, cost)
    return there + back


def _match(
    prediction: Tensor, target: Tensor, cost: Cost, rows: Tensor, columns: Tensor, same_class: Classes | None
) -> Assignment:
    matrix = pairwise(prediction, target, cost)
    _refuse_nonfinite(matrix, rows, columns, prediction, target)
    if same_class is not None:
        matrix = widest(matrix)  # beside the penalty, 32 bits would round the costs
        matrix = matrix + _class_penalty(matrix, rows[:, :, None] & columns[:, None, :], same_class)
    return _solve(matrix, rows, columns)


def _mean_over_pairs(prediction: Tensor, target: Tensor, pairs: Assignment, cost: Cost) -> Tensor:
    # Padding is indexed out rather than multiplied by zero: it may hold NaN, and 0 * NaN would reach the gradient.
    example, slot = pairs.mask.nonzero(as_tuple=True)
    left = prediction[example, pairs.prediction[example, slot]]
    right = target[example, pairs.target[example, slot]]
    values = cost(left, right)
    padded = values.new_zeros(pairs.mask.shape).masked_scatter(pairs.mask, values)
    return padded.sum(1) / pairs.mask.sum(1).clamp(min=1)


def _class_penalty(matrix: Tensor, valid: Tensor, same_class: Classes) -> Tensor:
    """[batch, n, m], zero within a class and elsewhere so large that one pair fewer across is always better."""
    of_prediction, of_target = check_classes(same_class, matrix)
    penalty = 2 * matrix.where(valid, 0).abs().sum((1, 2), keepdim=True)
    return (of_prediction[:, :, None] != of_target[:, None, :]) * penalty.clamp(min=CLASS_PENALTY)


def check_classes(same_class: Classes, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Class numbers of predictions, [batch, n], and targets, [batch, m], for a [batch, n, m] matrix."""
    of_prediction, of_target = same_class if isinstance(same_class, tuple) else (same_class, same_class)
    batch, n, m = matrix.shape
    for name, classes, size in (("predictions", of_prediction, n), ("targets", of_target, m)):
        check_tensor(f"same_class of the {name}", classes)
        if classes.shape != (batch, size):
            raise ValueError(f"same_class of the {name} has shape {list(classes.shape)}: expected [{batch}, {size}]")
        check_device("same_class", classes, "the sets", matrix)
    return of_prediction, of_target


def _check_sets(prediction: Tensor, target: Tensor, cost: str | Cost) -> tuple[Tensor, Tensor, Cost]:
    """The sets in one dtype of at least single precision, and the cost as a function."""
    refuse_transforms("a match")
    for name, sets in (("prediction", prediction), ("target", target)):
        check_tensor(name, sets)
        if sets.ndim != 3:
            raise ValueError(f"{name} has shape {list(sets.shape)}: expected [batch, size, dim]")
        if sets.is_complex():
            raise ValueError(f"{name} is {sets.dtype}: expected real numbers")
        if sets.shape[2] == 0:
            raise ValueError(f"{name} has shape {list(sets.shape)}: its elements need at least one dimension")
    if len(prediction) != len(target):
        raise ValueError(f"prediction holds {len(prediction)} sets, target {len(target)}: give one for each")
    check_device("prediction", prediction, "target", target)
    if isinstance(cost, str):
        if cost not in COSTS:
            raise ValueError(f"cost is {cost!r}: choose one of {', '.join(COSTS)}, or pass a function")
        if prediction.shape[2] != target.shape[2]:
            raise ValueError(
                f"elements of the prediction have {prediction.shape[2]} dimensions, of the target "
                f"{target.shape[2]}: make them equal"
            )
        cost = COSTS[cost]
    dtype = torch.promote_types(torch.promote_types(prediction.dtype, target.dtype), torch.float32)
    return prediction.to(dtype), target.to(dtype), cost


def _refuse_nonfinite(
    matrix: Tensor, rows: Tensor, columns: Tensor, prediction: Tensor | None = None, target: Tensor | None = None
) -> None:
    if matrix.numel() == 0:
        return
    # Nearly always this one pass is enough; what is masked may hold anything, so look closer before refusing.
    low, high = matrix.detach().aminmax()
    if low.item() >= -LARGEST_COST and high.item() <= LARGEST_COST:
        return
    # In double precision, for half precision rounds the limit to infinity.
    bad = ~(matrix.detach().cpu().double().abs() <= LARGEST_COST)
    bad &= (rows[:, :, None] & columns[:, None, :]).cpu()
    if not bad.any():
        return
    example, i, j = bad.nonzero()[0].tolist()
    if prediction is not None and not prediction[example, i].isfinite().all():
        raise ValueError(
            f"the prediction of example {example} holds NaN or infinity (element {i}): if the inner optimisation "
            "diverged, lower its step or clip its gradient"
        )
    if target is not None and not target[example, j].isfinite().all():
        raise ValueError(
            f"the target of example {example} holds NaN or infinity (element {j}): clean the data, or leave "
            "padding out with mask"
        )
    raise ValueError(
        f"the cost of example {example} is {matrix[example, i, j].item():g} (prediction {i}, target {j}): "
        "costs must be finite and below 1e30, so look for overflow or a log of zero"
    )


@uncompiled
def _solve(cost: Tensor, rows: Tensor, columns: Tensor) -> Assignment:
    dtype = torch.float32 if cost.dtype in (torch.float16, torch.bfloat16, torch.float32) else torch.float64
    costs = cost.detach().to("cpu", dtype).contiguous().numpy()
    pairs = least_assignments(costs, *(valid.cpu().contiguous().numpy() for valid in (rows, columns)))
    return Assignment(*(torch.from_numpy(a).to(cost.device) for a in pairs))

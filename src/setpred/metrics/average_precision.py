"""Average precision of predicted objects: attributes right and position near, ranked by confidence."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import Metric

from ..notices import warn_renamed
from ..padding import check_mask
from ..schema import Schema
from ..tensors import check_device

THRESHOLDS = (float("inf"), 1.0, 0.5, 0.25, 0.125, 0.0625)


class Objects(NamedTuple):
    """Sets of objects as the metric needs them. With a `Schema`, the metric makes them from elements."""

    attributes: Tensor
    """`[batch, n, a]`, whole numbers that must all match"""
    position: Tensor
    """`[batch, n, k]`, in the units of the thresholds"""
    confidence: Tensor
    """`[batch, n]`, by which predictions are ranked; in a target, above 0.5 where there is an object"""


class SetAveragePrecision(Metric):
    """Average precision at several distances, by two rules.

    Predictions are ranked by confidence, highest first. A prediction is correct if its image has an object with the
    same attributes, within the distance, that no earlier prediction has taken. The precision at a recall is the best
    precision at this or a higher recall; its average over recall is the result.

    | result | predictions are ranked | a prediction looks for |
    |---|---|---|
    | `ap_…` (Slot Attention's) | over all images | the nearest object with its attributes; if too far, it takes none |
    | `image_ap_…` (iDSPN's) | per image, then a mean | the nearest object not yet taken; even if too far, it takes it |

    Predictions with equal confidence share one rank, so the order of the images does not matter; within an image the
    lower index chooses first. Among objects at the same distance, one that is not yet taken is preferred. A prediction
    with NaN or infinity is wrong. Images without objects have no `image_ap`, but their predictions count as wrong in
    `ap`.

    Args:
        schema: which numbers of an element are attributes, position and presence. Without a schema, pass `Objects`.
        thresholds: distances, in the units of the data.

    >>> prediction = Objects(torch.tensor([[[0], [1]]]), torch.tensor([[[0.0], [2.0]]]), torch.tensor([[0.9, 0.8]]))
    >>> target = Objects(torch.tensor([[[1], [0]]]), torch.tensor([[[2.5], [0.0]]]), torch.tensor([[1.0, 1.0]]))
    >>> metric = SetAveragePrecision(thresholds=(0.5, 0.25))
    >>> metric(prediction, target)
    {'ap_0.5': tensor(1.), 'ap_0.25': tensor(0.5000), 'image_ap_0.5': tensor(1.), 'image_ap_0.25': tensor(0.5000)}
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    confidence: list[Tensor] | Tensor
    correct: list[Tensor] | Tensor
    objects: Tensor
    image_sum: Tensor
    images: Tensor

    def __init__(self, schema: Schema | None = None, thresholds: Sequence[float] = THRESHOLDS) -> None:
        super().__init__()
        if not thresholds or not all(threshold >= 0 for threshold in thresholds):
            raise ValueError(f"thresholds are {list(thresholds)}: give at least one distance, none negative")
        self.schema, self.thresholds = schema, tuple(float(threshold) for threshold in thresholds)
        # Flat and of the default type: what a process without data puts in their place is that, too.
        self.add_state("confidence", [], dist_reduce_fx="cat")
        self.add_state("correct", [], dist_reduce_fx="cat")
        self.add_state("objects", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("image_sum", torch.zeros(len(self.thresholds)), dist_reduce_fx="sum")
        self.add_state("images", torch.tensor(0), dist_reduce_fx="sum")
        # A MetricCollection shares the states of metrics that have the same: other distances must make them differ.
        self.add_state("limits", torch.tensor(self.thresholds), dist_reduce_fx="max")

    def update(
        self,
        prediction: Tensor | Objects,
        target: Tensor | Objects,
        target_mask: Tensor | None = None,
        *,
        prediction_mask: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> None:
        """Judge the predictions of one batch of images.

        Args:
            prediction: elements [batch, n, dim], or `Objects`.
            target: elements [batch, m, dim], or `Objects`.
            target_mask: [batch, m] bool, true where a target object exists; by default where its presence exceeds 0.5.
            prediction_mask: [batch, n] bool, true where a prediction exists. By default all n predictions are ranked,
                even those with a low confidence.
            mask: the old name of `target_mask`.
        """
        if mask is not None:
            warn_renamed("SetAveragePrecision.update(mask=)", "target_mask")
            target_mask = mask
        found, wanted = self._objects("prediction", prediction), self._objects("target", target)
        _check_pair(found, wanted)
        if target_mask is None:
            target_mask = wanted.confidence > 0.5
        if prediction_mask is None:
            prediction_mask = torch.ones_like(found.confidence, dtype=torch.bool)
        check_mask("target_mask", target_mask, wanted.confidence.shape)
        check_mask("prediction_mask", prediction_mask, found.confidence.shape)

        finite = found.position.isfinite().all(-1) & found.confidence.isfinite()
        if isinstance(prediction, Tensor):
            finite &= prediction.isfinite().all(-1)
        ranking, order = _rank(found.confidence, prediction_mask)
        same = (found.attributes[:, :, None] == wanted.attributes[:, None]).all(-1)
        same &= (finite & prediction_mask)[:, :, None] & target_mask[:, None]
        distance = _distances(found.position, wanted.position).masked_fill(~same, torch.inf)
        distance = distance.take_along_dim(order[..., None], dim=1)
        # An object that no one can find: there is then a nearest one even in an image without any.
        distance = F.pad(distance, (0, 1), value=torch.inf)

        correct = torch.stack([take_nearest(distance, threshold) for threshold in self.thresholds], dim=-1)
        exists = prediction_mask.take_along_dim(order, dim=1)
        self.confidence.append(ranking[exists].float())  # type: ignore[union-attr]
        self.correct.append(correct[exists].flatten().float())  # type: ignore[union-attr]
        objects = target_mask.sum(1)
        self.objects += objects.sum()

        taken = take_nearest_left(distance)[:, None]
        within = (taken <= torch.tensor(self.thresholds).to(taken)[:, None]) & taken.isfinite()
        ap = average_precision(ranking[:, None], within, objects[:, None])
        self.image_sum += ap[objects > 0].sum(0)
        self.images += (objects > 0).sum()

    def compute(self) -> dict[str, Tensor]:
        """Scalars in [0, 1]; NaN where there was no object."""
        confidence, correct = _joined(self.confidence), _joined(self.correct)
        correct = correct.view(-1, len(self.thresholds)).bool()
        order = confidence.argsort(descending=True)
        pooled = average_precision(confidence[order], correct[order].mT, self.objects)
        means = self.image_sum / self.images
        names = [f"{threshold:g}" for threshold in self.thresholds]
        return {f"ap_{name}": ap for name, ap in zip(names, pooled, strict=True)} | {
            f"image_ap_{name}": ap for name, ap in zip(names, means, strict=True)
        }

    def _objects(self, name: str, sets: Tensor | Objects) -> Objects:
        if isinstance(sets, Tensor):
            if self.schema is None:
                raise ValueError(f"{name} is a tensor of elements: build the metric with their schema, or pass Objects")
            if sets.ndim != 3:
                raise ValueError(f"{name} has shape {list(sets.shape)}: expected [batch, size, dim]")
            sets = Objects(self.schema.attributes(sets), self.schema.position(sets), self.schema.confidence(sets))
        if sets.attributes.ndim != 3 or sets.position.shape[:-1] != sets.attributes.shape[:-1]:
            raise ValueError(
                f"{name} has attributes {list(sets.attributes.shape)}, position {list(sets.position.shape)}: "
                "expected [batch, n, a] and [batch, n, k]"
            )
        if sets.confidence.shape != sets.attributes.shape[:-1]:
            raise ValueError(
                f"{name} has confidence {list(sets.confidence.shape)}: expected {list(sets.attributes.shape[:-1])}"
            )
        return sets


def take_nearest(distance: Tensor, threshold: float) -> Tensor:
    """Which predictions find an object when each looks only at the nearest; `[batch, n]` bool.

    Args:
        distance: `[batch, n, m]`, predictions by rank; infinite where a prediction cannot be an object at all.
        threshold: an object farther than this is not found, and stays free.
    """
    nearest = (distance == distance.amin(2, keepdim=True)) & distance.isfinite() & (distance <= threshold)
    free = torch.ones(distance.shape[::2], dtype=torch.bool, device=distance.device)
    found = torch.zeros(distance.shape[:2], dtype=torch.bool, device=distance.device)
    for i in range(distance.shape[1]):
        first = _first(nearest[:, i] & free)
        free &= ~first
        found[:, i] = first.any(1)
    return found


def take_nearest_left(distance: Tensor) -> Tensor:
    """How far the object is that each prediction takes, the nearest of those left; `[batch, n]`, inf for none.

    Args:
        distance: `[batch, n, m]`, predictions by rank; infinite where a prediction cannot be an object at all.
    """
    free = torch.ones(distance.shape[::2], dtype=torch.bool, device=distance.device)
    taken = torch.empty_like(distance[..., 0])
    for i in range(distance.shape[1]):
        left = distance[:, i].masked_fill(~free, torch.inf)
        taken[:, i] = left.amin(1)
        free &= ~_first((left == taken[:, i, None]) & left.isfinite())
    return taken


def average_precision(confidence: Tensor, correct: Tensor, objects: Tensor) -> Tensor:
    """The area under the envelope of precision over recall; NaN without objects.

    Args:
        confidence: `[..., n]`, falling.
        correct: `[..., n]` bool.
        objects: `[...]`, how many there were to find.

    >>> correct = torch.tensor([True, False, True])
    >>> average_precision(torch.tensor([0.9, 0.8, 0.7]), correct, torch.tensor(2))  # (1 + 2/3) / 2
    tensor(0.8333)
    >>> average_precision(torch.tensor([0.9, 0.9, 0.7]), correct, torch.tensor(2))  # (2/3 + 2/3) / 2
    tensor(0.6667)
    """
    rank = torch.arange(1, correct.shape[-1] + 1, device=correct.device)
    precision = correct.cumsum(-1) / rank
    # Between predictions of equal confidence there is no threshold to stop at.
    tied = torch.zeros_like(confidence, dtype=torch.bool)
    tied[..., :-1] = confidence[..., :-1] == confidence[..., 1:]
    envelope = precision.masked_fill(tied, 0).flip(-1).cummax(-1).values.flip(-1)
    return (envelope * correct).sum(-1) / objects


def _rank(confidence: Tensor, exists: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence from high to low and the order that makes it so, what does not exist last with -inf."""
    info = torch.finfo(confidence.dtype)
    known = confidence.nan_to_num(nan=info.min, posinf=info.max, neginf=info.min)
    ranked = known.masked_fill(~exists, -torch.inf).sort(dim=1, descending=True, stable=True)
    return ranked.values, ranked.indices


def _distances(a: Tensor, b: Tensor) -> Tensor:
    dtype = torch.float64 if a.dtype == b.dtype == torch.float64 else torch.float32
    # Not by way of matrix products, which would round small distances.
    return torch.cdist(a.to(dtype), b.to(dtype), compute_mode="donot_use_mm_for_euclid_dist")


def _first(candidates: Tensor) -> Tensor:
    """Only the first true entry of each row stays."""
    return candidates & (candidates.cumsum(-1) == 1)


def _joined(parts: list[Tensor] | Tensor) -> Tensor:
    if isinstance(parts, Tensor):
        return parts
    return torch.cat(parts) if parts else torch.zeros(0)


def _check_pair(found: Objects, wanted: Objects) -> None:
    for name, a, b in zip(Objects._fields[:2], found, wanted, strict=False):
        if len(a) != len(b) or a.shape[2] != b.shape[2]:
            raise ValueError(
                f"{name} of the prediction is {list(a.shape)}, of the target {list(b.shape)}: make batch and last equal"
            )
    check_device("prediction", found.position, "target", wanted.position)

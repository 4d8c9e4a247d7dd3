"""Proposals: many candidate elements, each with a score, of which the few that belong to the set are kept.

Training matches the elements of the target one to one with proposals and teaches all other proposals to be absent, so
that no two proposals claim one object and nothing has to be removed afterwards. Beside that, each object also teaches
the few proposals that are nearest to it, with scores of their own: the same elements then learn from more examples.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from .matching import assign
from .pretrained import Pretrained
from .schema import Schema

CAUTION = 10.0
"""So many times the spread that chance explains is held against a plane of places."""
WIDEST = 3.0
"""Places spread at most so many times as far as the objects."""
Pairs = tuple[Tensor, Tensor, Tensor]
"""Matched pairs: numbers of the example, of the place and of the target's element, each `[pairs]`."""

CANDIDATES = 3
"""Times as many proposals as a set has elements are looked at when those that repeat others are left out."""
REPEATED = 20.0
"""What the score of a proposal loses that repeats a likelier one."""
SCORE_WEIGHT = 2.0
"""What a proposal's score counts when it is matched."""
NEAREST = 4
"""So many proposals learn from each object in the one-to-many match."""
FOCUS = 2.0
"""Exponent of the focal loss: proposals that are surely absent hardly count."""


class Proposer(Pretrained):
    """Base of models that propose elements, each with a score, of which the likeliest become the set.

    A subclass says in `propose` what it makes of inputs; how a set is chosen and learned is the same for all.

    Args:
        schema: what an element is.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.schema = schema
        self.numbers = schema.dim + (not schema.presence)
        """Of a proposal: those of an element, and a score."""

    def forward(self, inputs: Tensor, given: Tensor | None = None) -> Tensor:
        """Inputs → sets `[batch, size, dim]`, likeliest first; `given` says which elements of input sets exist."""
        return select(self.schema, self.propose(inputs, given))

    def propose(self, inputs: Tensor, given: Tensor | None = None) -> Tensor:
        """Proposals before activation, last the score: `[batch, proposals, dim]`."""
        raise NotImplementedError

    def loss(self, inputs: Tensor, target: Tensor, mask: Tensor | None = None, given: Tensor | None = None) -> Tensor:
        """The loss of all proposals, a scalar; target `[batch, size, dim]`, mask `[batch, size]` of what exists."""
        return proposal_loss(self.schema, self.propose(inputs, given), target, self.present(target, mask))

    def present(self, target: Tensor, mask: Tensor | None) -> Tensor:
        """Which elements of a target exist: the mask, or what their presence says."""
        if mask is not None:
            return mask
        return target[..., -1] > 0 if self.schema.presence else torch.ones_like(target[..., 0], dtype=torch.bool)

    def calibrate(self, batches: Iterable[tuple[Tensor, ...]]) -> None:
        """Learn after training, from batches as `loss` takes them, what no gradient teaches."""


def select(schema: Schema, raw: Tensor, apart: Tensor | float = 0.0) -> Tensor:
    """The likeliest proposals as sets: raw `[batch, places, dim]`, score last → `[batch, size, dim]`, likeliest first.

    A proposal whose position is nearer than `apart` to that of a likelier one is the same object once more, and
    absent. Where there are fewer places than elements, the rest is absent. Without presence the score is left out.

    >>> from setpred.schema import Real
    >>> schema = Schema({"at": Real()}, size=2)
    >>> raw = torch.tensor([[[0.0, 3.0], [0.1, 2.0], [5.0, 1.0]]])
    >>> select(schema, raw)[0, :, 0], select(schema, raw, apart=0.5)[0, :, 0]
    (tensor([0.0000, 0.1000]), tensor([0., 5.]))
    """
    size, candidates = (min(n, raw.shape[1]) for n in (schema.size, CANDIDATES * schema.size))
    raw = _likeliest(raw, candidates)
    if schema.position_field is not None:
        at = raw[..., schema.slices[schema.position_field]]
        near = (at.unsqueeze(2) - at.unsqueeze(1)).square().sum(-1) < apart**2  # [batch, candidates, candidates]
        kept = torch.ones_like(raw[..., 0], dtype=torch.bool)
        for i in range(1, candidates):
            repeats = (near[:, i, :i] & kept[:, :i]).any(1, keepdim=True)
            kept = torch.cat([kept[:, :i], ~repeats, kept[:, i + 1 :]], dim=1)
        raw = torch.cat([raw[..., :-1], raw[..., -1:] - REPEATED * ~kept.unsqueeze(-1)], dim=-1)
    sets = schema.activate(with_score_in_place(schema, _likeliest(raw, size)))
    return F.pad(sets, (0, 0, 0, schema.size - size))


def _likeliest(raw: Tensor, count: int) -> Tensor:
    # Not by take_along_dim, which an exporter takes for one batch size only.
    best = raw[..., -1].topk(count, dim=1).indices
    return raw.gather(1, best.unsqueeze(-1).expand(-1, -1, raw.shape[-1]))


def least_distance(positions: Tensor, mask: Tensor) -> float:
    """Half of how near objects of one example come, but for one in a hundred; `[examples, size, k]`, `[…, size]`."""
    apart = torch.cdist(positions.double(), positions.double(), compute_mode="donot_use_mm_for_euclid_dist")
    both = mask.unsqueeze(1) & mask.unsqueeze(2) & ~torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
    nearest = apart.masked_fill(~both, torch.inf).amin(2)[both.any(2)]
    return float(nearest.quantile(0.01)) / 2 if len(nearest) else 0.0


def best_threshold(scores: Tensor, counts: Tensor) -> float:
    """The logit above which elements of sets `[examples, size]` are objects, so that most sets have their true size.

    >>> best_threshold(torch.tensor([[3.0, -1.0, -5.0], [2.0, 1.0, -4.0]]), torch.tensor([2, 2]))
    -2.5
    """
    ranked = F.pad(scores.sort(dim=1, descending=True).values, (1, 1), value=torch.inf)
    ranked[:, -1] = -torch.inf
    low = ranked.gather(1, counts.unsqueeze(1) + 1).squeeze(1)  # the first that is too many
    high = ranked.gather(1, counts.unsqueeze(1)).squeeze(1)  # the last that is right
    edges = torch.cat([low, high])
    edges = edges[edges.isfinite()].unique()
    if len(edges) < 2:
        return 0.0
    middles = (edges[1:] + edges[:-1]) / 2
    right = ((low < middles.unsqueeze(1)) & (middles.unsqueeze(1) <= high)).sum(1)
    return float(middles[right == right.max()].median())


def with_score_in_place(schema: Schema, raw: Tensor) -> Tensor:
    """The numbers of the schema alone: a score is the presence, or there is none."""
    return raw if schema.presence else raw[..., :-1]


def proposal_loss(schema: Schema, raw: Tensor, target: Tensor, mask: Tensor, crowd: Tensor | None = None) -> Tensor:
    """The loss of proposals `[batch, places, dim]`, score last, for targets `[batch, size, dim]`: a scalar.

    Matched proposals learn their element (`Schema.error`) and to be present, the others to be absent; the scores with a
    focal loss. Both are means over the matched pairs of the batch.

    Args:
        schema: what an element is.
        raw: proposals before activation.
        target: what the examples hold.
        mask: which elements of the target exist, `[batch, size]`.
        crowd: scores `[batch, places]` for the one-to-many match, which is left out without them.

    >>> from setpred.schema import Real
    >>> schema = Schema({"at": Real(2)}, size=3)
    >>> target, mask = schema.encode_batch([[{"at": [0.5, 0.5]}]])
    >>> sure = torch.tensor([[[0.5, 0.5, 9.0], [0.0, 0.0, -9.0]]])
    >>> bool(proposal_loss(schema, sure, target, mask) < 1e-4)
    True
    """
    elements = with_score_in_place(schema, raw)
    with torch.no_grad():
        cost = schema.error(elements[:, :, None], target[:, None])  # [batch, places, size]

    def loss(scores: Tensor, pairs: Pairs) -> Tensor:
        example, place, element = pairs
        error = schema.error(elements[example, place], target[example, element]).sum()
        present = torch.zeros_like(scores)
        present[example, place] = 1.0
        return (error + focal_loss(scores, present)) / max(1, len(example))

    scores = raw[..., -1]
    total = loss(scores, one_to_one(cost - SCORE_WEIGHT * scores.detach().sigmoid().unsqueeze(-1), mask))
    if crowd is not None:
        total = total + loss(crowd, one_to_many(cost - SCORE_WEIGHT * crowd.detach().sigmoid().unsqueeze(-1), mask))
    return total


def one_to_one(cost: Tensor, mask: Tensor) -> Pairs:
    """The match of least total cost `[batch, places, size]`: each object has one place, no place two."""
    pairs = assign(cost, target_mask=mask)
    example, pair = pairs.mask.nonzero(as_tuple=True)
    return example, pairs.prediction[example, pair], pairs.target[example, pair]


def one_to_many(cost: Tensor, mask: Tensor, nearest: int = NEAREST) -> Pairs:
    """Each object with its `nearest` places, of those that have no nearer object."""
    cost = cost.masked_fill(~mask.unsqueeze(1), torch.inf)
    own = cost.argmin(2)  # of each place, [batch, places]
    places = cost.topk(min(nearest, cost.shape[1]), dim=1, largest=False).indices  # [batch, nearest, size]
    mine = own.unsqueeze(-1).take_along_dim(places, dim=1) == torch.arange(cost.shape[2], device=cost.device)
    example, rank, element = (mine & mask.unsqueeze(1)).nonzero(as_tuple=True)
    return example, places[example, rank, element], element


def focal_loss(scores: Tensor, present: Tensor) -> Tensor:
    """The sum of the cross-entropies of scores (logits), each weighted by how wrong its probability is.

    As in RetinaNet: with exponent 2, and present ones at a quarter of the weight of absent ones three.
    """
    wrong = (scores.sigmoid() - present).abs()
    entropy = F.binary_cross_entropy_with_logits(scores, present, reduction="none")
    return (entropy * wrong**FOCUS * (3 - 2 * present)).sum()


def fit_plane(images: Tensor, sets: Tensor, mask: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Where in the data's space each place of an image lies, as the affine map `W place + b`, found by least squares.

    No one says which object is where in an image. But the mean of the objects' positions moves with the centroid of
    what the image shows, that is of its deviation from the mean image. The regression of centroids on mean positions,
    inverted, is the map. Where centroids say nothing about positions, W is near zero.

    Args:
        images: `[examples, 3, height, width]`.
        sets: positions `[examples, size, k]`.
        mask: which of them exist, `[examples, size]`.
        height: rows of places.
        width: columns of places.

    Returns:
        W `[k, 2]` and b `[k]`, for places as `place_grid` gives them.
    """
    if mask.sum() < 2:  # nothing varies
        return sets.new_zeros(sets.shape[-1], 2), sets[mask].sum(0)
    some = mask.any(1)
    images, sets, mask = images[some], sets[some].double(), mask[some]
    shown = F.adaptive_avg_pool2d(images, (height, width)).double()
    salience = (shown - shown.mean(0)).square().sum(1)
    salience = salience / salience.sum((1, 2), keepdim=True).clamp(min=1e-12)
    centroids = torch.einsum("bhw,khw->bk", salience, place_grid(height, width).to(salience))
    means = (sets * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
    covariance = torch.atleast_2d(torch.cov(sets[mask].T))
    centred, from_mean = centroids - centroids.mean(0), means - means.mean(0)
    slope = torch.linalg.pinv(from_mean, rtol=1e-6) @ centred  # [k, 2]
    spread = slope.T @ covariance @ slope
    weight = covariance @ slope @ torch.linalg.pinv(spread, rtol=1e-3, hermitian=True)
    # What chance alone would make of as many images, and what no plane of places exceeds.
    left = (centred - from_mean @ slope).square().sum(1).mean() * slope.shape[0] / len(means)
    noise = left * covariance.trace() / torch.cov(means.T).reshape(len(weight), -1).trace().clamp(min=1e-12)
    trust = spread.trace() / (spread.trace() + CAUTION * noise).clamp(min=1e-12)
    reach = (weight @ place_grid(height, width).to(weight).flatten(1)).std(1).norm() / covariance.trace().sqrt()
    weight = weight * trust / (reach / WIDEST).clamp(min=1)
    return weight.float(), (means.mean(0) - weight @ centroids.mean(0)).float()


def place_grid(height: int, width: int) -> Tensor:
    """The middles of the places of a map: row and column `[2, height, width]`, the longer side from -1 to 1."""
    longer = max(height, width)
    rows, columns = ((torch.arange(n) + 0.5 - n / 2) * 2 / longer for n in (height, width))
    return torch.stack(torch.meshgrid(rows, columns, indexing="ij"))

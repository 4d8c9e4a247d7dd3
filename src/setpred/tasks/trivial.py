"""What one gets without learning: the same set for every input."""

from collections import Counter

import torch
from torch import Tensor, nn

from ..matching import match
from ..predictor import SetPredictor
from .experiment import Chunks, Experiment, Predicting

LOOKED_AT = 2_048
"""So many training sets decide what is answered."""
ROUNDS = 10


class ConstantSet(nn.Module):
    """Answers one set `[size, dim]`, whatever the input is."""

    def __init__(self, answer: Tensor) -> None:
        super().__init__()
        self.answer = nn.Parameter(answer, requires_grad=False)

    def forward(self, inputs: Tensor, given: Tensor | None = None) -> Tensor:
        return self.answer.expand(len(inputs), -1, -1)


@torch.no_grad()
def trivial_scores(experiment: Experiment) -> dict[str, dict[str, float]]:
    """The metrics of the most frequent training set and of the mean one; nothing for tasks that predict no objects."""
    if not isinstance(experiment, Predicting):
        return {}
    learned, sets = experiment.predictor, experiment.split("train")[1][:LOOKED_AT]
    frequent = most_frequent(sets)
    scores = {}
    for name, answer in {"most frequent set": frequent, "mean set": mean_set(sets, frequent)}.items():
        experiment.predictor = SetPredictor(ConstantSet(answer), None, learned.schema)
        scores[name] = judged(experiment)
    experiment.predictor = learned
    return scores


@torch.no_grad()
def trivial_loss(experiment: Experiment, count: int = 500) -> float:
    """The loss of the mean set of some training examples, on as many test examples."""
    train, test = (tuple(part[:count] for part in experiment.split(name)) for name in ("train", "test"))
    sets = experiment.target(train).float()
    answer = mean_set(sets, sets[0])
    return float(experiment.losses(answer.expand_as(experiment.target(test)), test).mean())


def most_frequent(sets: Tensor) -> Tensor:
    """The multiset that occurs most often, in any order; of several the first, as where each occurs once.

    >>> most_frequent(torch.tensor([[[5.0], [6.0]], [[1.0], [2.0]], [[2.0], [1.0]]])).tolist()
    [[1.0], [2.0]]
    """
    keys = [tuple(sorted(map(tuple, elements))) for elements in sets.tolist()]
    return sets[keys.index(Counter(keys).most_common(1)[0][0])]


def mean_set(sets: Tensor, start: Tensor) -> Tensor:
    """The set whose elements are the means of those that they are matched with in all sets, found from a start."""
    mean = start
    for _ in range(ROUNDS):
        partners = match(mean.expand_as(sets), sets).target
        mean = torch.take_along_dim(sets, partners.unsqueeze(-1), dim=1).mean(0)
    return mean


def judged(experiment: Experiment) -> dict[str, float]:
    """The metrics of an experiment on its test split."""
    sums: dict[str, list[Tensor]] = {}
    for batch in Chunks(experiment.split("test"), experiment.evaluation_batch):
        for name, values in experiment.judge(batch).items():
            sums.setdefault(name, []).append(values.double())
    metrics = {name: float(torch.cat(values).mean()) for name, values in sums.items()}
    if experiment.pooled is not None:
        metrics |= {name: float(value) for name, value in experiment.pooled.compute().items()}
        experiment.pooled.reset()
    return metrics

"""What the rivals that propose as many elements as a set can have share: the head, and when an element is there."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..image_reader import RARE
from ..proposals import Proposer, best_threshold, select
from ..schema import Schema


class Calibrated(Proposer):
    """A proposer that learns after training from which score on an element counts as present.

    The focal loss does not make of ½ the score at which half of the elements are present.
    """

    least_score: Tensor

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.register_buffer("least_score", torch.zeros(()))

    def forward(self, inputs: Tensor, given: Tensor | None = None) -> Tensor:
        raw = self.propose(inputs, given)
        return select(self.schema, torch.cat([raw[..., :-1], raw[..., -1:] - self.least_score], dim=-1))

    @torch.no_grad()
    def calibrate(self, batches: Iterable[tuple[Tensor, ...]]) -> None:
        if not self.schema.presence:
            return
        was_training = self.training
        self.eval()
        scores, counts = [], []
        for inputs, _, mask, *given in batches:
            scores.append(self.propose(inputs, *given)[..., -1])
            counts.append(mask.sum(1))
        self.least_score.fill_(best_threshold(torch.cat(scores), torch.cat(counts)))
        self.train(was_training)


class ProposalHead(nn.Sequential):
    """Two layers to the numbers of a proposal, whose score starts low."""

    def __init__(self, features: int, numbers: int) -> None:
        last = nn.Linear(features, numbers)
        with torch.no_grad():
            last.bias[-1] = RARE / 4
        super().__init__(nn.Linear(features, features), nn.ReLU(), last)

"""An experiment: a model, the data it learns from, and how it is judged."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from ..costs import Cost
from ..decoder import SetDecoder
from ..inits import GuessedInit
from ..matching import hungarian_loss
from ..solution import Trace
from .settings import Settings

Batch = tuple[Tensor, ...]


class Experiment(nn.Module):
    """A model that knows its task.

    Attributes:
        monitor: the validation metric whose highest value chooses the weights, or None for the last ones.
        evaluation_batch: how many examples are judged at once.
        pooled: a metric that is no mean over examples, which `judge` updates; what is reported is its result for the
            whole split, over all processes.
    """

    monitor: str | None = None
    evaluation_batch: int = 512
    settings: Settings

    def __init__(self) -> None:
        super().__init__()
        self.pooled: Metric | None = None

    def split(self, name: str) -> Batch:
        """The examples of `train`, `val` or `test`, the same each time: tensors whose first dimension counts them.

        `val` is empty where nothing is selected by it.
        """
        raise NotImplementedError

    def begin(self, step: int) -> None:
        """Told before each step of training which one it is."""

    def augment(self, batch: Batch) -> Batch:
        """What is done to a training batch, with torch's random numbers."""
        return batch

    def loss(self, batch: Batch) -> Tensor:
        """What training minimises, a scalar."""
        raise NotImplementedError

    def judge(self, batch: Batch) -> dict[str, Tensor]:
        """Metrics of each example, `[batch]`; what is reported is their mean."""
        raise NotImplementedError

    def way(self, batch: Batch, steps: int) -> Trace | None:
        """The iterates of a batch's inner optimisation, if there is one; what is decoded comes last."""
        return None

    def diagnostics(self) -> dict[str, Tensor]:
        """Of the last loss, to log: what its decoder says, if there is one."""
        return next((part.diagnostics for part in self.modules() if isinstance(part, SetDecoder)), {})


def decoding_loss(
    decoder: SetDecoder, z: Tensor, target: Tensor, cost: str | Cost = "huber", mask: Tensor | None = None
) -> Tensor:
    """The loss of the sets that are decoded, and of the guess they start from where there is one: a scalar."""

    def loss(sets: Tensor) -> Tensor:
        return hungarian_loss(sets, target, cost=cost, mask=mask, prediction_mask=mask).mean()

    decoded = loss(decoder(z, mask))
    return decoded + loss(decoder.init(len(z), z)) if isinstance(decoder.init, GuessedInit) else decoded


@dataclass
class Batches:
    """The training batches of steps `start` to `stop`; which examples are in batch t depends only on the seed and t.

    With several processes each takes its share of every batch.
    """

    data: Batch
    batch: int
    seed: int
    start: int
    stop: int
    rank: int = 0
    world: int = 1

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[Batch]:
        count = len(self.data[0])
        size = min(self.batch, count)
        in_epoch = count // size
        epoch, order = -1, torch.empty(0)
        for step in range(self.start, self.stop):
            if step // in_epoch != epoch:
                epoch = step // in_epoch
                order = torch.randperm(count, generator=torch.Generator().manual_seed(mixed_seed(self.seed, epoch)))
            chosen = order[(step % in_epoch) * size :][:size][self.rank :: self.world]
            yield tuple(t[chosen] for t in self.data)


@dataclass
class Chunks:
    """The whole of a split, in order, each process its own part; no example twice."""

    data: Batch
    batch: int
    rank: int = 0
    world: int = 1

    def __len__(self) -> int:
        return -(-len(self._own()) // self.batch)

    def __iter__(self) -> Iterator[Batch]:
        for chosen in self._own().split(self.batch):
            yield tuple(t[chosen] for t in self.data)

    def _own(self) -> Tensor:
        return torch.arange(len(self.data[0]) if self.data else 0)[self.rank :: self.world]


def mixed_seed(*numbers: int) -> int:
    """One seed of several numbers, all of which matter.

    >>> mixed_seed(0, 1) != mixed_seed(1, 0)
    True
    """
    seed = 0
    for number in numbers:
        seed = ((seed ^ number) * 0x9E3779B97F4A7C15 + 0x7F4A7C15) % 2**63
    return seed

"""An experiment: a model, the data it learns from, and how it is judged."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from .. import equivariance
from ..costs import Cost
from ..data.synthetic import mixed_seed
from ..decoder import SetDecoder
from ..equivariance import Report
from ..errors import UsageError
from ..image_reader import ImageReader
from ..inits import GuessedInit
from ..matching import chamfer_loss, hungarian_loss
from ..predictor import SetPredictor
from ..proposals import Proposer
from ..solution import Trace
from ..views.view import Batch, Examples
from .settings import Settings

MEASURED = 2_048
"""So many training examples tell a proposer what no gradient teaches."""


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

    def prepare(self, train: Batch) -> None:
        """Measure what the model needs to know of the training data before its first step."""

    def conclude(self, train: Batch) -> None:
        """Measure on the training data, after the last step, what no gradient teaches."""

    def begin(self, step: int) -> None:
        """Told before each step of training which one it is."""

    def augment(self, batch: Batch) -> Batch:
        """What is done to a training batch, with torch's random numbers."""
        return batch

    def loss(self, batch: Batch) -> Tensor:
        """What training minimises, a scalar."""
        raise NotImplementedError

    def sets(self, batch: Batch) -> Tensor:
        """What is predicted for a batch, `[batch, size, dim]`."""
        return self(batch[0])

    def target(self, batch: Batch) -> Tensor:
        """The true sets of a batch, `[batch, size, dim]`."""
        return batch[1]

    def losses(self, sets: Tensor, batch: Batch) -> Tensor:
        """How far sets are from those of a batch, `[batch]`."""
        return hungarian_loss(sets, batch[1])

    def judge(self, batch: Batch) -> dict[str, Tensor]:
        """Metrics of each example, `[batch]`; what is reported is their mean."""
        return {"loss": self.losses(self.sets(batch), batch)}

    def as_predictor(self) -> SetPredictor | None:
        """The model as it is saved and used outside of training; None where a task has no such model."""
        return None

    def trace(self, batch: Batch, steps: int) -> Trace | None:
        """The iterates of a batch's inner optimisation, if there is one; what is decoded comes last."""
        return None

    def examples(self) -> Examples | None:
        """The test examples and what is predicted for them, for a report; None where it has no pictures of them."""
        batch = self.split("test")
        predicted = torch.cat([self.sets(chunk) for chunk in Chunks(batch, 64)])
        return Examples(batch[0], batch[1], predicted, self.losses(predicted, batch))

    def check(self) -> Report:
        """Which equivariance the model has, in the type and on the device of its weights."""
        raise UsageError(f"{self.settings.task} has no check")

    def diagnostics(self) -> dict[str, Tensor]:
        """Of the last loss, to log: what its decoder says, if there is one."""
        return next((part.diagnostics for part in self.modules() if isinstance(part, SetDecoder)), {})


class Predicting(Experiment):
    """An experiment whose model is a predictor: of objects from inputs, with all that follows from that.

    In the first `optim.sets_first` of the steps, where the task has such a setting, the decoder learns alone. It then
    decodes the encodings that its own encoder makes of the true sets. That is learned fast, and what comes back to the
    encoder of the inputs afterwards is the gradient of a decoder that works.

    A batch is inputs, true sets, and what else a task needs to judge them.

    Attributes:
        cost: of matching a predicted element with a true one.
    """

    predictor: SetPredictor
    cost: str | Cost = "huber"
    alone: bool = False

    def begin(self, step: int) -> None:
        self.alone = self.settings.optim.sets_come_first(step)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.predictor(*self.with_mask(inputs))

    def as_predictor(self) -> SetPredictor:
        return self.predictor

    def with_mask(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """The inputs as the predictor takes them, and which elements of input sets exist."""
        return inputs, None

    def prepare(self, train: Batch) -> None:
        if isinstance(self.predictor.encoder, ImageReader):
            images, sets, mask, *_ = self._readable(tuple(part[:MEASURED] for part in train))
            self.predictor.encoder.fit_places(images, sets, mask)

    def conclude(self, train: Batch) -> None:
        if isinstance(self.predictor.encoder, Proposer):
            chunks = Chunks(tuple(part[:MEASURED] for part in train), self.evaluation_batch)
            self.predictor.encoder.calibrate(self._readable(chunk) for chunk in chunks)

    def _readable(self, batch: Batch) -> Batch:
        """Inputs, sets, which elements of these exist, and which of input sets, as a `Proposer` takes them."""
        inputs, given = self.with_mask(self.predictor.prepared(batch[0]))
        sets = batch[1]
        mask = batch[2] if len(batch) > 2 else sets[..., -1] > 0
        readable = inputs, sets.to(inputs.device), mask.to(inputs.device)
        return readable if given is None else (*readable, given)

    def loss(self, batch: Batch) -> Tensor:
        encoder, decoder = self.predictor.encoder, self.predictor.decoder
        if isinstance(encoder, Proposer):
            return encoder.loss(*self._readable(batch))
        assert decoder is not None
        return decoding_loss(decoder, self.vectors(batch), batch[1], self.cost, loss=self.settings.optim.loss)

    def vectors(self, batch: Batch) -> Tensor:
        """What sets are decoded from in training: encoded inputs, or at first the true sets, `[batch, latent]`."""
        decoder = self.predictor.decoder
        if self.alone and decoder is not None:
            return decoder.encoder(batch[1])
        return self.predictor.encode(*self.with_mask(batch[0]))

    def losses(self, sets: Tensor, batch: Batch) -> Tensor:
        return hungarian_loss(sets, batch[1], self.cost)

    def trace(self, batch: Batch, steps: int) -> Trace | None:
        decoder = self.predictor.decoder
        if decoder is None:
            return None
        return decoder.solve(self.predictor.encode(*self.with_mask(batch[0])), steps=steps, trace=True).trace

    def check(self) -> Report:
        """The decoder as a function of its initial set, or a model without one as it says itself, such as slots."""
        decoder, inputs = self.predictor.decoder, self.split("test")[0][:1]
        of_model: Any = getattr(self.predictor.encoder, "check_equivariance", None)
        if of_model is not None:
            return of_model(*self.with_mask(self.predictor.prepared(inputs)))
        if decoder is None:
            raise UsageError(f"{self.settings.model} starts from no set: there is nothing to permute")
        return check_decoder(decoder, self.predictor.encode(*self.with_mask(inputs)))


def check_decoder(decoder: SetDecoder, z: Tensor) -> Report:
    """Which equivariance a decoder has as a function of its initial set; z is `[1, latent]`."""

    def decode(start: Tensor) -> Tensor:
        with torch.no_grad():
            return decoder(z.expand(len(start), -1).contiguous(), init=start)

    return equivariance.check(decode, size=decoder.size, dim=decoder.dim)


def decoding_loss(
    decoder: SetDecoder,
    z: Tensor,
    target: Tensor,
    cost: str | Cost = "huber",
    mask: Tensor | None = None,
    loss: str | None = None,
) -> Tensor:
    """The loss of the sets that are decoded, and of the guess they start from where there is one: a scalar.

    It is the Hungarian loss, or with `loss="chamfer"` the Chamfer loss.
    """
    between = chamfer_loss if loss == "chamfer" else hungarian_loss

    def mean_loss(sets: Tensor) -> Tensor:
        return between(sets, target, cost, mask, prediction_mask=mask).mean()

    decoded = mean_loss(decoder(z, mask))
    return decoded + mean_loss(decoder.init(len(z), z)) if isinstance(decoder.init, GuessedInit) else decoded


@dataclass
class Batches:
    """The training batches of steps `start` to `stop`; which examples are in batch t depends only on the seed and t.

    With several processes each takes its part of every batch.
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

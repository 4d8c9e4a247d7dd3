"""One Lightning module for all experiments.

Training is cut in rounds: a round is a Lightning epoch of a fixed number of steps, after which the model is validated
and the run saved. Everything random in step t depends only on the seed and t, so a run that is resumed at a round goes
on exactly as it would have.
"""

import math
import time
from collections.abc import Callable
from typing import Any, cast

import lightning as L
import torch
from torch import Tensor

from ..data.synthetic import mixed_seed
from ..decoder import SetDecoder
from ..errors import unknown
from ..inits import seeded_examples
from ..restart import Restart
from ..tasks.experiment import Batch, Batches, Chunks, Experiment
from ..tasks.parts import iterations_at
from ..tasks.settings import Settings
from ..tensors import widest

DIAGNOSED = ("diverged", "restarted")
"""Fractions of the test examples that stand beside their metrics, of models that have an inner optimisation."""
FITTED = 8_192
"""So many examples of val, or of training where there is no val, say which inner losses are usual."""

WARM_UP = 1_000
HALF_LIFE = 50_000


class TrainingModule(L.LightningModule):
    """Trains, validates and tests an experiment as its settings say."""

    def __init__(self, experiment: Experiment, settings: Settings):
        super().__init__()
        self.experiment, self.settings = experiment, settings
        self.sums: dict[str, Tensor] = {}  # of each metric since the last report: its sum and how many it is of
        self.seconds = 0.0
        self.cpu_of_rounds: list[float] = []
        self.began = False
        self.concludes = False  # whether what no gradient teaches is measured before the test
        self._data: dict[str, Batch] = {}
        self._started = self._cpu_started = self._validating = 0.0

    @property
    def cpu_seconds(self) -> float:
        """Processor seconds of training, over all threads; on other devices than the processor, seconds."""
        return sum(self.cpu_of_rounds)

    def borrow_data(self, other: "TrainingModule") -> None:
        """Use the splits that another one has made or read."""
        self._data = other._data

    def data(self, split: str) -> Batch:
        """A split, made or read at the first call."""
        if split not in self._data:
            self._data[split] = self.experiment.split(split)
        return self._data[split]

    def configure_optimizers(self) -> Any:
        optim = self.settings.optim
        weights = self.experiment.parameters()
        optimizer = torch.optim.AdamW(weights, lr=optim.lr, weight_decay=optim.weight_decay, fused=True)
        rate = rate_schedule(optim.schedule, optim.steps)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def train_dataloader(self) -> Batches:
        optim, round_ = self.settings.optim, self.settings.trainer.round
        start = self.current_epoch * round_
        stop = min(start + round_, optim.steps)
        return Batches(self.data("train"), optim.batch, self.settings.seed, start, stop, *self._place())

    def val_dataloader(self) -> Chunks:
        return Chunks(self.data("val"), self.experiment.evaluation_batch, *self._place())

    def test_dataloader(self) -> Chunks:
        return Chunks(self.data("test"), self.experiment.evaluation_batch, *self._place())

    def on_train_start(self) -> None:
        self.began = True

    def on_train_epoch_start(self) -> None:
        self._started, self._cpu_started = time.perf_counter(), self._clock()

    def _clock(self) -> float:
        if self.device.type == "cpu":
            return time.process_time()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        settings, step = self.settings, self.global_step
        torch.manual_seed(mixed_seed(settings.seed, step, self.global_rank))
        self.experiment.begin(step)
        if settings.optim.iterations is not None:
            iterations = iterations_at(settings.optim.iterations, step, settings.optim.steps, settings.seed)
            for part in self.experiment.modules():
                if isinstance(part, SetDecoder):
                    part.solver.steps = iterations

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = self.experiment.loss(self.experiment.augment(batch)) * self._weight(len(batch[0]))
        self._add("train", {"loss": loss, **self.experiment.diagnostics()})
        return loss

    def _weight(self, examples: int) -> float:
        """What makes the mean over processes, whose parts of a batch may differ by one, the mean over examples."""
        whole = min(self.settings.optim.batch, len(self.data("train")[0]))
        return examples * self.trainer.world_size / whole

    def on_train_epoch_end(self) -> None:
        self.cpu_of_rounds.append(self._clock() - self._cpu_started)
        self.seconds += time.perf_counter() - self._started
        self._report("train")

    def on_validation_start(self) -> None:
        self._validating = self._clock()

    def on_validation_end(self) -> None:
        self._cpu_started += self._clock() - self._validating  # a round ends after its validation, which is no training

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._add("val", self._judge(batch, batch_idx))

    def on_validation_epoch_end(self) -> None:
        self._report("val")
        self._report_pooled("val")

    def on_test_start(self) -> None:
        if self.concludes:
            self._fit_restarts()
            self.experiment.conclude(self.data("train"))

    def _fit_restarts(self) -> None:
        # What is learned by heart has lower inner losses than what is met later.
        some = tuple(t[:FITTED] for t in self.data("val") or self.data("train"))
        for restart in (part for part in self.experiment.modules() if isinstance(part, Restart)):
            with restart.fitting():
                for batch in Chunks(some, self.experiment.evaluation_batch):
                    self.experiment.judge(tuple(t.to(self.device) for t in batch))
        if self.experiment.pooled is not None:
            self.experiment.pooled.reset()

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        judged, found = self._judge(batch, batch_idx), self.experiment.diagnostics()
        diagnosed = {name: found[name].expand(len(batch[0])) for name in DIAGNOSED if name in found}
        self._add("test", judged | diagnosed)

    def _judge(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        """Each example starts from noise of its own, which its place in the split decides: one draw for all would move
        an accuracy by points, and noise of each batch would make it depend on the batches."""
        rank, world = self._place()
        first = batch_idx * self.experiment.evaluation_batch
        places = range(rank + world * first, rank + world * (first + len(batch[0])), world)
        with seeded_examples([mixed_seed(self.settings.seed, place) for place in places]):
            return self.experiment.judge(batch)

    def on_test_epoch_end(self) -> None:
        self._report("test")
        self._report_pooled("test")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["seconds"], checkpoint["cpu_of_rounds"] = self.seconds, self.cpu_of_rounds

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.seconds, self.cpu_of_rounds = checkpoint["seconds"], checkpoint.get("cpu_of_rounds", [])

    def _place(self) -> tuple[int, int]:
        return self.global_rank, self.trainer.world_size

    def _add(self, split: str, values: dict[str, Tensor]) -> None:
        for name, value in values.items():
            value = widest(value.detach())
            both = torch.stack([value.sum(), value.new_tensor(value.numel())])
            key = f"{split}/{name}"
            self.sums[key] = self.sums[key] + both if key in self.sums else both

    def _report(self, split: str) -> None:
        for key in [key for key in self.sums if key.startswith(f"{split}/")]:
            sums = cast(Tensor, self.all_gather(self.sums.pop(key)))  # of each process
            total, count = sums.view(-1, 2).sum(dim=0)
            self.log(key, (total / count).float(), rank_zero_only=True)

    def _report_pooled(self, split: str) -> None:
        if self.experiment.pooled is not None:
            for name, value in self.experiment.pooled.compute().items():
                self.log(f"{split}/{name}", value, rank_zero_only=True)
            self.experiment.pooled.reset()


def rate_schedule(name: str, steps: int) -> Callable[[int], float]:
    """The factor of the learning rate at each step."""
    warm_up = min(WARM_UP, steps // 10)

    def cosine(step: int) -> float:
        return 0.5 * (1 + math.cos(math.pi * min(step / steps, 1)))

    schedules: dict[str, Callable[[int], float]] = {
        "constant": lambda step: 1.0,
        "cosine": cosine,
        "one-cycle": lambda step: min(1.0, (step + 1) / (steps // 20 + 1)) * cosine(step),
        "drop": lambda step: 1.0 if step < 0.9 * steps else 0.1,
        "halving": lambda step: min(1.0, (step + 1) / (warm_up + 1)) * 0.5 ** (step / HALF_LIFE),
    }
    if name not in schedules:
        raise unknown("optim.schedule", name, schedules)
    return schedules[name]

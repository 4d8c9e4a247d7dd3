"""Lightning's trainer, and what happens around training: the table of metrics, the checkpoints, the progress bar."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Checkpoint, ProgressBar
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from ..errors import UsageError, unknown
from ..files import replacing
from ..tasks.settings import Settings
from .module import TrainingModule

LOST = 0.1
"""If at least this fraction of inner optimisations diverges, the training says so."""
LOGGERS = ("tensorboard", "wandb", "mlflow", "none")


def make_trainer(settings: Settings, out: Path | None, monitor: str | None, quiet: bool) -> L.Trainer:
    """Lightning's trainer; without a folder it only evaluates."""
    s = settings.trainer
    callbacks: list[Any] = [] if quiet else [Bar()]
    if out is not None:
        callbacks.append(Rounds(out / "checkpoints", MetricsTable(out / "metrics.csv"), monitor))
    logger = False if out is None else make_logger(s.logger, out)
    try:
        return L.Trainer(
            max_epochs=math.ceil(settings.optim.steps / s.round),
            accelerator=s.accelerator,
            devices=s.devices,
            num_nodes=s.nodes,
            strategy=_strategy(settings),
            precision=s.precision,  # type: ignore[arg-type]
            gradient_clip_val=settings.optim.clip,
            logger=logger,
            callbacks=callbacks,
            enable_checkpointing=out is not None,
            enable_progress_bar=not quiet,
            enable_model_summary=False,
            limit_val_batches=None if monitor is not None else 0,
            num_sanity_val_steps=0,
            reload_dataloaders_every_n_epochs=1,
            use_distributed_sampler=False,
            plugins=WholeFiles(),
            default_root_dir=out,
            log_every_n_steps=1,
        )
    except (MisconfigurationException, ImportError, ValueError, RuntimeError) as error:  # this machine is another
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"trainer.accelerator, devices, nodes or precision cannot be had here: {reason}") from None


def _strategy(settings: Settings) -> str:
    """Processes that train together must know that some weights get no gradient while others are trained first."""
    several = settings.trainer.devices != 1 or settings.trainer.nodes > 1
    return "ddp_find_unused_parameters_true" if several and settings.optim.sets_come_first(0) else "auto"


def make_logger(name: str | None, out: Path) -> Any:
    from lightning.pytorch import loggers

    if name is None:
        return False
    makers = {
        "tensorboard": lambda: loggers.TensorBoardLogger(out, "", "tensorboard", default_hp_metric=False),
        "wandb": lambda: loggers.WandbLogger(save_dir=out, project="setpred"),
        "mlflow": lambda: loggers.MLFlowLogger("setpred", save_dir=str(out / "mlflow")),
    }
    if name not in makers:
        raise unknown("trainer.logger", name, LOGGERS)
    try:
        return makers[name]()
    except ModuleNotFoundError:
        raise UsageError(f"trainer.logger={name} needs its package: pip install {name}") from None


class MetricsTable:
    """Writes `metrics.csv`: a row a round."""

    def __init__(self, path: Path):
        self.path = path
        self.rows: list[dict[str, Any]] = []

    def reopen(self, step: int) -> None:
        """Go on after `step`: rows that were written after the checkpoint are made again."""
        if self.path.exists():
            try:
                with self.path.open(newline="", encoding="utf-8") as file:
                    self.rows = [row for row in csv.DictReader(file) if int(row["step"]) <= step]
            except (ValueError, KeyError, TypeError, csv.Error):
                raise UsageError(f"{self.path} is damaged: remove it, and the run goes on without its past") from None

    def write(self, trainer: L.Trainer, module: TrainingModule) -> None:
        metrics = {name: f"{float(value):.6g}" for name, value in trainer.callback_metrics.items()}
        rate = module.optimizers().param_groups[0]["lr"]  # type: ignore[union-attr]
        self.rows.append(
            {
                "step": trainer.global_step,
                "seconds": f"{module.seconds:.1f}",
                "cpu_seconds": f"{module.cpu_seconds:.1f}",
                "lr": f"{rate:.6g}",
                **metrics,
            }
        )
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        with replacing(self.path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, names)
            table.writeheader()
            table.writerows(self.rows)


class WholeFiles(TorchCheckpointIO):
    """Checkpoints that appear whole, or an error.

    Lightning's own way through the system's temporary folder leaves its remains there when it is killed, and says
    nothing where a checkpoint may not be written.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        content = io.BytesIO()  # a full disk is then an OSError, which says so
        torch.save(checkpoint, content)
        with replacing(Path(path)) as temporary:
            temporary.write_bytes(content.getbuffer())


class Rounds(Checkpoint):
    """After each round: the metrics are written, then the checkpoint, and the best one kept."""

    def __init__(self, folder: Path, table: MetricsTable, monitor: str | None):
        self.folder, self.table, self.monitor = folder, table, monitor
        self.best = float("-inf")
        self.since_best = 0

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self.table.reopen(trainer.global_step)
        self._stop_if_patience_is_over(trainer, module)  # it may have been killed after its last round

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        assert isinstance(module, TrainingModule)
        improved = False
        if self.monitor is not None:
            value = float(trainer.callback_metrics[f"val/{self.monitor}"])
            improved = value > self.best
            self.since_best = 0 if improved else self.since_best + 1
            self.best = max(self.best, value)
        if trainer.is_global_zero:
            self.table.write(trainer, module)
        for name in ("best", "last") if improved else ("last",):
            trainer.save_checkpoint(self.folder / f"{name}.ckpt")
        self._stop_if_patience_is_over(trainer, module)

    def _stop_if_patience_is_over(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        assert isinstance(module, TrainingModule)
        patience = module.settings.trainer.patience
        if patience is not None and self.since_best >= patience:
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "since_best": self.since_best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.since_best = state["best"], state["since_best"]


class Bar(ProgressBar):
    """One bar for the whole of training, with the loss and the time left."""

    def __init__(self) -> None:
        super().__init__()
        self.enabled, self.warned = True, False
        whole = Column(no_wrap=True)  # in a narrow terminal the bar shrinks, and not the numbers
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(table_column=whole),
            TextColumn("{task.fields[loss]}"),
            TimeElapsedColumn(table_column=whole),
            TextColumn("elapsed,"),
            TimeRemainingColumn(table_column=whole),
            TextColumn("left"),
            console=Console(stderr=True),
            expand=True,
        )

    def disable(self) -> None:
        self.enabled = False

    def enable(self) -> None:
        self.enabled = True

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        assert isinstance(module, TrainingModule)
        settings = module.settings
        self.task = self.progress.add_task(
            f"{settings.task} {settings.model}",
            total=settings.optim.steps,
            completed=trainer.global_step,
            loss="",
        )
        if self.enabled:
            self.progress.start()

    def on_train_batch_end(self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, *_: Any) -> None:
        if trainer.global_step % 10 == 0 or trainer.global_step == self.progress.tasks[self.task].total:
            self.progress.update(self.task, completed=trainer.global_step, loss=f"loss {float(outputs['loss']):.3g}")

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        assert isinstance(module, TrainingModule)
        lost, total = (float(number) for number in module.sums.get("train/diverged", (0, 1)))
        if lost >= LOST * total and not self.warned:
            self.warned = True
            self.progress.console.print(
                f"by step {trainer.global_step}, {lost / total:.0%} of the inner optimisations diverge, and nothing is "
                "learned from them: set solver.clip=10, or a lower solver.lr",
                highlight=False,
            )

    def on_train_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self.progress.stop()

    def on_exception(self, trainer: L.Trainer, module: L.LightningModule, exception: BaseException) -> None:
        self.progress.stop()

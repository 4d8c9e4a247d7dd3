"""Train into a run folder, resume it, evaluate it."""

import json
import math
import os
import platform
import subprocess
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from .. import __version__
from ..data.synthetic import mixed_seed
from ..errors import UsageError, unknown
from ..files import remove_remains, replacing
from ..notices import quiet
from ..tasks import make_experiment
from ..tasks.settings import ImageOptimSettings, Settings, changed
from .callbacks import Bar, MetricsTable, Rounds, WholeFiles
from .module import TrainingModule
from .public_weights import load_public_weights
from .run_folder import (
    load_run,
    load_weights,
    read_config,
    read_result,
    resumed_as_asked,
    what_counts,
    write_config,
    write_model,
)
from .run_lock import LOCK, locked, refuse_locked

LOGGERS = ("tensorboard", "wandb", "mlflow", "none")
ONE_PROCESS = {"trainer.accelerator": "auto", "trainer.devices": 1, "trainer.nodes": 1}
"""Where a run is evaluated unless asked otherwise: it may have been trained on machines that this one is not."""


def train(
    settings: Settings, out: Path, resume: bool = False, quiet: bool = False, held: bool = False
) -> dict[str, Any]:
    """Train into the folder `out`, evaluate, and return what is written to `result.json`.

    The folder is locked as long as this writes there; `held` says that who called already holds it.
    """
    found = _state(out)
    if resume and (out / "config.yaml").exists():
        settings = resumed_as_asked(read_config(out), what_counts(settings), out)
    if resume and (out / "result.json").exists():
        return read_result(out)

    commit()  # asked now: the files may change while they train
    torch.manual_seed(mixed_seed(settings.seed, 0))
    module = TrainingModule(make_experiment(settings), settings)
    last, best = (out / "checkpoints" / name for name in ("last.ckpt", "best.ckpt"))
    going_on = resume and last.exists()
    if not going_on:
        load_public_weights(module.experiment, settings)
    if settings.optim.start is not None and not going_on:
        load_weights(module.experiment, Path(settings.optim.start), to_train=True)
    module.to(memory_format=torch.channels_last)  # convolutions learn faster when a pixel's channels lie together
    if settings.trainer.patience is not None and module.experiment.monitor is None:
        raise UsageError(f"trainer.patience is for tasks that validate, {settings.task} does not: leave it out")
    with _calm(), ExitStack() as lock:
        trainer = make_trainer(settings, out, module.experiment.monitor, quiet)
        if trainer.is_global_zero:
            if not held:
                refuse_locked(out)
            _check_place(out, resume)
        for split in ("train", "val", "test"):
            module.data(split)  # before anything is written: what cannot be trained leaves no folder behind
        if settings.optim.start is None and not going_on:
            module.experiment.prepare(module.data("train"))
        _check_parts(module, trainer.world_size)
        if trainer.is_global_zero:
            if not held:
                lock.enter_context(locked(out))
            if _state(out) != found:
                raise UsageError(f"another process has just trained into {out}: look at it before you ask again")
            remove_remains(out)
            write_config(settings, out)
        try:
            trainer.fit(module, ckpt_path=last if going_on else None, weights_only=True)
        except SystemExit:  # how Lightning leaves at an interrupt
            raise KeyboardInterrupt from None
        except UsageError:
            raise
        except Exception as error:
            elsewhere = isinstance(error, OSError | MemoryError | ImportError) and _readable(last)
            if going_on and not module.began and not elsewhere:
                raise _damaged(last, error) from error
            raise
        if module.experiment.monitor is not None and best.exists():
            try:
                weights = torch.load(best, map_location="cpu", weights_only=True)["state_dict"]
                module.load_state_dict(weights, strict=False)
            except Exception as error:  # a damaged file can be anything
                raise _damaged(best, error) from error
        module.concludes = True
        (metrics,) = trainer.test(module, verbose=False)
        result = summary(settings, trainer.global_step, module.seconds, metrics)
        if trainer.is_global_zero:
            write_model(module.experiment, out)
            with replacing(out / "result.json") as temporary:
                temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result


def _damaged(checkpoint: Path, error: Exception) -> UsageError:
    folder, kind = checkpoint.parent, type(error).__name__
    return UsageError(f"{checkpoint} cannot be read ({kind}): remove {folder} to train from the beginning")


def _readable(checkpoint: Path) -> bool:
    try:
        torch.load(checkpoint, map_location="cpu", weights_only=True)
    except Exception:  # a damaged file can be anything
        return False
    return True


def speaks() -> bool:
    """Whether this is the one process, of all that train together, which tells a person about it."""
    return getattr(rank_zero_only, "rank", 0) == 0


def evaluate(run: Path, overrides: dict[str, Any] | None = None) -> dict[str, float]:
    """The metrics of a trained run on its test split, with some settings changed (`solver.eval_steps`, `data.test`)."""
    settings, experiment = load_run(run, overrides)
    settings = changed(settings, {**ONE_PROCESS, **(overrides or {})})
    module = TrainingModule(experiment, settings)
    with _calm():
        (metrics,) = make_trainer(settings, None, None, quiet=True).test(module, verbose=False)
    return {name.removeprefix("test/"): value for name, value in metrics.items()}


def _calm() -> AbstractContextManager[None]:
    """Lightning's advice about loaders and loggers does not apply to loaders that are tensors in memory."""
    return quiet("lightning.pytorch", "lightning.fabric", warned_by="lightning")


def _state(out: Path) -> list[bool]:
    """How far the run in a folder is."""
    return [(out / name).exists() for name in ("config.yaml", "checkpoints/last.ckpt", "result.json")]


def _check_place(out: Path, resume: bool) -> None:
    """A run begins in a folder that is empty, and goes on in one of its own."""
    found = [path.name for path in out.iterdir() if path.name != LOCK] if out.exists() else []
    if found and not resume:
        raise UsageError(f"{out} is not empty: choose another --out, or go on with --resume")
    if "config.yaml" not in found and any(not name.startswith(".") and name != "output.txt" for name in found):
        raise UsageError(f"{out} holds other things than a run, so there is none to resume: choose another --out")


def _check_parts(module: TrainingModule, processes: int) -> None:
    """Each process needs a part of every batch and of every split, or the others would wait for it."""
    counts = {f"data.{split}": len(data[0]) for split in ("train", "val", "test") if (data := module.data(split))}
    for name, count in {"optim.batch": module.settings.optim.batch, **counts}.items():
        if count < processes:
            raise UsageError(f"{name} is {count}, to be shared by {processes} processes: use fewer trainer.devices")


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
    except (MisconfigurationException, ValueError, RuntimeError) as error:  # what Lightning says to a machine unlike it
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"trainer.accelerator, devices, nodes or precision cannot be had here: {reason}") from None


def _strategy(settings: Settings) -> str:
    """Processes that train together must be told that some weights learn nothing while others come first."""
    several = settings.trainer.devices != 1 or settings.trainer.nodes > 1
    rests = isinstance(settings.optim, ImageOptimSettings) and settings.optim.sets_first > 0
    return "ddp_find_unused_parameters_true" if several and rests else "auto"


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


def summary(settings: Settings, steps: int, seconds: float, metrics: Any) -> dict[str, Any]:
    """What a result says about a run."""
    return {
        "task": settings.task,
        "model": settings.model,
        "preset": settings.preset,
        "seed": settings.seed,
        "steps": steps,
        "seconds": round(seconds, 1),
        "metrics": {name.removeprefix("test/"): value for name, value in metrics.items()},
        "versions": {
            "setpred": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "hardware": f"{os.cpu_count()} cores, {platform.machine()}, {torch.get_num_threads()} threads"
        + (f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""),
        "commit": commit(),
    }


@cache
def commit() -> str | None:
    """The commit of the code that runs, with a + where files were changed since."""

    def git(*words: str) -> str:
        where = Path(__file__).parent
        return subprocess.run(["git", "-C", where, *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)  # a package may be installed inside another repository
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None

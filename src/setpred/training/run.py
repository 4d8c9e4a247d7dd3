"""Run folders: train into one, resume it, load and evaluate it.

A folder holds `config.yaml`, `metrics.csv`, `checkpoints/`, `model.safetensors`, and last of all `result.json`.
"""

import json
import logging
import math
import os
import platform
import subprocess
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lightning as L
import torch
import yaml
from lightning.pytorch.utilities import rank_zero_only
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from ..errors import UsageError
from ..files import remove_remains, replacing
from ..plain_yaml import read_yaml
from .callbacks import Bar, MetricsTable, Rounds, WholeFiles
from .experiment import Experiment, mixed_seed
from .module import TrainingModule
from .settings import Settings, changed, flatten, to_dict
from .tasks import find_task, make_experiment

HARMLESS = ("trainer.accelerator", "trainer.devices", "trainer.nodes", "trainer.logger")
"""Where and how a run is computed and watched, not what it computes."""
LOGGERS = ("tensorboard", "wandb", "mlflow", "none")


def train(settings: Settings, out: Path, resume: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Train into the folder `out`, evaluate, and return what is written to `result.json`."""
    if resume and (out / "config.yaml").exists():
        settings = resumed_as_asked(read_config(out), _what_counts(settings), out)
    if resume and (out / "result.json").exists():
        return read_result(out)

    commit()  # asked now: the files may change while they train
    torch.manual_seed(mixed_seed(settings.seed, 0))
    module = TrainingModule(make_experiment(settings), settings)
    if settings.optim.start is not None:
        load_weights(module.experiment, Path(settings.optim.start), to_train=True)
    with _calm():
        trainer = make_trainer(settings, out, module.experiment.monitor, quiet)
        if trainer.is_global_zero and not resume and out.exists() and any(out.iterdir()):
            raise UsageError(f"{out} is not empty: choose another --out, or go on with --resume")
        for split in ("train", "val", "test"):
            module.data(split)  # before anything is written: what cannot be trained leaves no folder behind
        _check_shares(module, trainer.world_size)
        if trainer.is_global_zero:
            remove_remains(out)
            write_config(settings, out)
        last, best = (out / "checkpoints" / name for name in ("last.ckpt", "best.ckpt"))
        going_on = resume and last.exists()
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
        (metrics,) = trainer.test(module, verbose=False)
    result = summary(settings, trainer.global_step, module.seconds, metrics)
    if trainer.is_global_zero:
        with replacing(out / "model.safetensors") as temporary:
            temporary.write_bytes(save(module.experiment.state_dict()))
        with replacing(out / "result.json") as temporary:
            temporary.write_text(json.dumps(result, indent=2) + "\n")
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
    module = TrainingModule(experiment, settings)
    with _calm():
        (metrics,) = make_trainer(settings, None, None, quiet=True).test(module, verbose=False)
    return {name.removeprefix("test/"): value for name, value in metrics.items()}


def load_run(run: Path, overrides: dict[str, Any] | None = None) -> tuple[Settings, Experiment]:
    """The settings and the trained experiment of a run folder."""
    trained = read_config(run)
    settings = changed(trained, overrides or {})
    if settings.restart.share not in (None, trained.restart.share):
        raise UsageError("restart.share is learned in training: of a finished run it can only be none")
    try:
        with torch.device("meta"):  # damaged settings may ask for any amount of memory
            planned = make_experiment(settings)
    except UsageError as error:
        raise UsageError(f"{run / 'config.yaml'}: {error}") from None
    check_weights(planned, run)
    experiment = make_experiment(settings)
    load_weights(experiment, run)
    return settings, experiment.eval()


def load_weights(experiment: Experiment, run: Path, to_train: bool = False) -> None:
    """Give an experiment the weights of a finished run."""
    check_weights(experiment, run, to_train)
    experiment.load_state_dict(load_file(run / "model.safetensors"), strict=False)


def check_weights(experiment: Experiment, run: Path, to_train: bool = False) -> None:
    """Raise unless the weights of a finished run have the names and shapes of this experiment's, by their header.

    A run that learned when to restart may be asked to start once, and training learns it where it is missing.
    """
    path = run / "model.safetensors"
    if not path.exists():
        raise UsageError(f"{run} holds no model.safetensors: the run has not finished, go on with --resume")
    try:
        with safe_open(path, "pt") as file:
            stored = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UsageError(f"{path} is damaged ({str(error).splitlines()[0]}): train again") from None
    own = {name: list(value.shape) for name, value in experiment.state_dict().items()}
    for name in own | stored:
        if name.endswith(".restart.threshold") and (name not in own or to_train):
            continue
        if own.get(name) != stored.get(name):
            found, wanted = stored.get(name, "missing"), own.get(name, "unknown")
            raise UsageError(f"{path} does not fit the run's config.yaml: {name} is {found} there, {wanted} here")


def read_config(run: Path) -> Settings:
    """The settings in a run folder."""
    path = run / "config.yaml"
    if not run.is_dir():
        raise UsageError(f"there is no run folder {run}: name the --out of a training")
    try:
        written = read_yaml(path.read_bytes())
        task = find_task(written.pop("task"))
        return changed(task.settings(), flatten(written))
    except FileNotFoundError:
        raise UsageError(f"{run} is not a run folder: it holds no config.yaml") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged: {str(error).splitlines()[0]}") from None


def read_result(run: Path) -> dict[str, Any]:
    """What `result.json` of a finished run says."""
    path = run / "result.json"
    try:
        result = json.loads(path.read_text())
        values = result["metrics"].values()
        if not all(value is None or isinstance(value, int | float) for value in values):
            raise TypeError("metrics holds what is no number")
    except FileNotFoundError:
        raise UsageError(f"{run} holds no result.json: the run has not finished, go on with --resume") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: {str(error)[:200]}") from None
    return result


def resumed_as_asked(settings: Settings, asked: Mapping[str, Any], run: Path) -> Settings:
    """The settings of a run to go on with, which must be what is asked for; it may go on elsewhere."""
    written = flatten(to_dict(settings))
    for key, value in asked.items():
        if key not in written:
            changed(settings, {key: value})  # says which key was meant
        if written[key] != value and key not in HARMLESS:
            raise UsageError(f"{run} was started with {key}={written[key]}, not {value}: resume it as it was")
    return changed(settings, {key: asked[key] for key in HARMLESS if key in asked})


def _what_counts(settings: Settings) -> dict[str, Any]:
    """All but how often a run is judged and saved, which stays as it was."""
    every = flatten(to_dict(settings))
    return {key: value for key, value in every.items() if key in HARMLESS or not key.startswith("trainer.")}


def _check_shares(module: TrainingModule, processes: int) -> None:
    """Each process needs a share of every batch and of every split, or the others would wait for it."""
    counts = {f"data.{split}": len(data[0]) for split in ("train", "val", "test") if (data := module.data(split))}
    for name, count in {"optim.batch": module.settings.optim.batch, **counts}.items():
        if count < processes:
            raise UsageError(f"{name} is {count}, to be shared by {processes} processes: use fewer trainer.devices")


def write_config(settings: Settings, out: Path) -> None:
    with replacing(out / "config.yaml") as temporary:
        temporary.write_text(yaml.safe_dump(to_dict(settings), sort_keys=False))


def make_trainer(settings: Settings, out: Path | None, monitor: str | None, quiet: bool) -> L.Trainer:
    """Lightning's trainer; without a folder it only evaluates."""
    s = settings.trainer
    callbacks: list[Any] = [] if quiet else [Bar()]
    if out is not None:
        callbacks.append(Rounds(out / "checkpoints", MetricsTable(out / "metrics.csv"), monitor))
    return L.Trainer(
        max_epochs=math.ceil(settings.optim.steps / s.round),
        accelerator=s.accelerator,
        devices=s.devices,
        num_nodes=s.nodes,
        precision=s.precision,  # type: ignore[arg-type]
        logger=False if out is None else make_logger(s.logger, out),
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


def make_logger(name: str | None, out: Path) -> Any:
    if name is None:
        return False
    if name == "tensorboard":
        from lightning.pytorch.loggers import TensorBoardLogger

        return TensorBoardLogger(out, name="", version="tensorboard", default_hp_metric=False)
    if name == "wandb":
        from lightning.pytorch.loggers import WandbLogger

        return WandbLogger(save_dir=out, project="setpred")
    if name == "mlflow":
        from lightning.pytorch.loggers import MLFlowLogger

        return MLFlowLogger(experiment_name="setpred", save_dir=str(out / "mlflow"))
    raise UsageError(f"unknown trainer.logger {name!r}: there are {', '.join(LOGGERS)}")


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
            "setpred": version("setpred"),
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
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


class _calm(warnings.catch_warnings):
    """Lightning's advice about loaders and loggers does not apply to loaders that are tensors in memory."""

    def __enter__(self) -> Any:
        entered = super().__enter__()
        warnings.filterwarnings("ignore", module="lightning")
        for name in ("lightning.pytorch", "lightning.fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
        return entered

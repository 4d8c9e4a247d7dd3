"""Train into a run folder, resume it, evaluate it."""

import json
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor, nn

from ..data.synthetic import mixed_seed
from ..errors import UsageError, usage_errors
from ..files import remove_remains, replacing
from ..image_encoder import ImageEncoder
from ..notices import quiet
from ..tasks import make_experiment
from ..tasks.settings import Settings, changed
from ..tasks.trivial import trivial_loss
from ..tensors import keep_freed_memory
from ..trunks import ResNetTrunk
from .module import TrainingModule
from .run_folder import (
    commit,
    load_run,
    load_weights,
    read_config,
    read_result,
    refuse_bare,
    settings_to_resume,
    summary,
    what_counts,
    write_config,
    write_model,
)
from .run_lock import LOCK, locked, refuse_locked
from .step_cost import check_cost, paced, step_cost
from .trainer import make_trainer

WIDTH = 64
"""Of a ResNet-18."""
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
        settings = settings_to_resume(read_config(out), what_counts(settings), out)
    if resume and (out / "result.json").exists():
        refuse_bare(out)
        return read_result(out)

    keep_freed_memory()
    commit()  # asked now: the files may change while they train
    torch.manual_seed(mixed_seed(settings.seed, 0))
    module = TrainingModule(make_experiment(settings), settings)
    check_cost(module.experiment)
    if not quiet and speaks() and (cost := step_cost(module.experiment)) is not None:
        print(cost, file=sys.stderr)
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
        if settings.optim.budget is not None and not going_on:
            if trainer.world_size > 1:
                raise UsageError("optim.budget is for trainings in one process: leave trainer.devices at 1")
            settings = paced(module, lambda short: make_trainer(short, None, None, quiet=True))
            module.settings = module.experiment.settings = settings
            trainer = make_trainer(settings, out, module.experiment.monitor, quiet)
        if trainer.is_global_zero:
            if not held:
                lock.enter_context(locked(out))
            if _state(out) != found:
                raise UsageError(f"another process has just trained into {out}: look at it before you train again")
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
        # Of a budget the last weights count: where val is also what is tested on, none may be chosen by it.
        if module.experiment.monitor is not None and best.exists() and settings.optim.budget is None:
            try:
                weights = torch.load(best, map_location="cpu", weights_only=True)["state_dict"]
                module.load_state_dict(weights, strict=False)
            except Exception as error:  # a damaged file can be anything
                raise _damaged(best, error) from error
        module.concludes = True
        (metrics,) = trainer.test(module, verbose=False)
        result = summary(settings, trainer.global_step, module.seconds, metrics, round(module.cpu_seconds, 1))
        result["trivial_loss"] = trivial_loss(module.experiment.cpu())
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
    with _calm(), usage_errors(f"{run} cannot be evaluated"):
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


def load_public_weights(experiment: nn.Module, settings: Settings) -> None:
    """Give the image encoder or reader of an experiment the weights in the file `net.weights`, where there is one."""
    net: Any = settings.net
    path = getattr(net, "weights", None)
    if path is None:
        return
    eyes = next((part for part in experiment.modules() if isinstance(part, ImageEncoder | ResNetTrunk)), None)
    if eyes is None:
        raise UsageError(f"net.weights is for models that read images with a ResNet-18, which {settings.model} is not")
    if net.width != WIDTH:
        raise UsageError(f"net.weights needs a ResNet-18, whose width is {WIDTH}: set net.width={WIDTH}")
    if settings.optim.start is not None:
        raise UsageError("optim.start and net.weights are both what training begins with: give one of them")
    try:
        eyes.load_resnet18(_read_state(Path(path)))
    except ValueError as error:
        raise UsageError(f"net.weights={path}: {error}") from None


def _read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of safetensors or of a state dict of torch; nothing in it is run."""
    if not path.is_file():
        raise ValueError("there is no such file")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
        if all(isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()):
            return dict(state)
    except Exception:  # a damaged file can be anything
        pass
    raise ValueError("cannot be read: give safetensors, or a state dict of torch")

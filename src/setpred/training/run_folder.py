"""Run folders: what is in one, written and read again.

A folder holds `config.yaml`, `metrics.csv`, `checkpoints/`, `model.safetensors`, `config.json` with the recipe of the
model where it has one, and last of all `result.json`.
"""

import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn

from .. import __version__
from ..errors import UsageError
from ..files import replacing
from ..predictor import SetPredictor
from ..pretrained import WEIGHTS, check_numbers, describe, write_weights
from ..pretrained import write_config as write_recipe
from ..recipes import build
from ..tasks.experiment import Experiment
from ..tasks.old_spellings import read_settings, renamed
from ..tasks.settings import NAMES, Settings, changed, flatten, to_dict
from ..tasks.task import find_task, make_experiment, refuse_idle
from ..values import check_finite, read_json, read_yaml

HARMLESS = ("trainer.accelerator", "trainer.devices", "trainer.nodes", "trainer.logger", "trainer.memory")
"""Where and how a run is computed and watched, not what it computes."""
OF_TRAINING = ("net.pool", "net.relation", "net.shared", "net.weights", "optim.", "adjoint", "data.train")
"""Of a finished run these change nothing, or what its weights mean."""


COUNTED, COUNTED_LATELY = ("steps", "seconds"), ("cpu_seconds", "peak_megabytes")
"""What a result counts besides its metrics; results of earlier versions lack some of it."""


def load_run(run: Path, overrides: dict[str, Any] | None = None) -> tuple[Settings, Experiment]:
    """The settings and the trained experiment of a run folder."""
    trained = read_config(run)
    overrides = renamed(overrides or {}, trained)
    for key in NAMES:
        if key in overrides:
            raise UsageError(f"{key} of a finished run cannot be changed: train another one")
    settings = changed(trained, overrides)
    refuse_idle(settings, overrides)
    before, after = (flatten(to_dict(either)) for either in (trained, settings))
    for key in after:
        if key.startswith(OF_TRAINING) and after[key] != before.get(key):
            raise UsageError(f"{key} is what the weights were trained with: train another run to change it")
    if settings.init["class"] == "LearnedInit" and settings.init != trained.init:
        raise UsageError("init.std is where a learned start began: of a finished run it changes nothing")
    if settings.restart is not None and settings.restart != trained.restart:
        raise UsageError("restart is learned in training: of a finished run it can only be none")
    try:
        with torch.device("meta"):  # damaged settings may ask for any amount of memory
            planned = make_experiment(settings)
    except UsageError as error:
        raise UsageError(str(error) if overrides else f"{run / 'config.yaml'}: {error}") from None
    check_weights(planned, run)
    experiment = make_experiment(settings)
    load_weights(experiment, run)
    return settings, experiment.eval()


def load_predictor(run: Path) -> SetPredictor:
    """The predictor of a finished run, built from its settings."""
    settings, experiment = load_run(run)
    predictor = experiment.as_predictor()
    if predictor is None:
        raise UsageError(f"{run} cannot predict from files: models of {settings.task} need more than their inputs")
    return predictor.eval()


def write_model(experiment: Experiment, out: Path) -> None:
    """The weights, and where the model has a recipe, what makes of the run folder a saved model."""
    predictor = experiment.as_predictor()
    write_weights(predictor or experiment, out)
    if predictor is None:
        return
    try:
        config = describe(predictor)
        with torch.device("meta"):
            build(config["model"])
    except UsageError:  # it has parts of the user's own, which are built from the settings
        return
    pixels = getattr(experiment.settings.data, "size", None)
    write_recipe(config | ({} if pixels is None else {"pixels": pixels}), out)


def load_weights(experiment: Experiment, run: Path, to_train: bool = False) -> None:
    """Give an experiment the weights of a finished run."""
    check_weights(experiment, run, to_train)
    model, stored = experiment.as_predictor() or experiment, load_file(run / WEIGHTS)
    weights = {now: stored[name] for now, name in _names(model, stored).items()}
    check_numbers(weights, model, run / WEIGHTS)
    model.load_state_dict(weights, strict=False)


def refuse_bare(run: Path) -> None:
    """Raise where a run has finished, but its weights are gone: resuming would bring nothing back."""
    if (run / "result.json").exists() and not (run / WEIGHTS).exists():
        raise UsageError(f"{run / WEIGHTS} is gone, though the run has finished: train it again with another --out")


def check_weights(experiment: Experiment, run: Path, to_train: bool = False) -> None:
    """Raise unless the weights of a finished run have the names and shapes of this experiment's, by their header.

    A run that learned when to restart may be asked to start once, and training learns it where it is missing.
    """
    path, model = run / WEIGHTS, experiment.as_predictor() or experiment
    if not path.exists():
        refuse_bare(run)
        raise UsageError(f"{run} holds no {WEIGHTS}: the run has not finished, go on with --resume")
    try:
        with safe_open(path, "pt") as file:
            header = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UsageError(f"{path} is damaged ({str(error).splitlines()[0]}): train again") from None
    stored = {now: header[name] for now, name in _names(model, header).items()}
    own = {name: list(value.shape) for name, value in model.state_dict().items()}
    for name in own | stored:
        if name.endswith(".restart.threshold") and (name not in own or to_train):
            continue
        if own.get(name) != stored.get(name):
            found, wanted = stored.get(name, "missing"), own.get(name, "unknown")
            raise UsageError(f"{path} does not fit the run's config.yaml: {name} is {found} there, {wanted} here")


def _names(model: nn.Module, stored: Iterable[str]) -> dict[str, str]:
    """The name in the file of each weight; earlier versions kept those of an experiment, and a shared encoder once."""
    names = {name.removeprefix("predictor."): name for name in stored}
    if isinstance(model, SetPredictor) and model.decoder is not None and model.encoder is model.decoder.encoder:
        inner = {name: file for name, file in names.items() if name.startswith("decoder.encoder.")}
        names = {name.removeprefix("decoder."): file for name, file in inner.items()} | names
    return names


def read_config(run: Path) -> Settings:
    """The settings in a run folder."""
    path = run / "config.yaml"
    if not run.is_dir():
        raise UsageError(f"there is no run folder {run}: name the folder that a training wrote")
    try:
        written = read_yaml(path.read_bytes())
        settings = find_task(written.pop("task")).settings()
        return changed(settings, read_settings(written, settings))
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
        result = read_json(path.read_bytes())
        check_result(result)
    except FileNotFoundError:
        raise UsageError(f"{run} holds no result.json: the run has not finished, go on with --resume") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is damaged: {str(error)[:200]}") from None
    return result


def check_result(result: dict[str, Any]) -> None:
    """Raise unless what a result counts and measures are numbers; a metric may be missing, or none that is finite."""
    for name in COUNTED:
        check_finite(name, result[name])
    for name in COUNTED_LATELY:
        if result.get(name) is not None:
            check_finite(name, result[name])
    for name, value in result["metrics"].items():
        if value is not None and not (isinstance(value, float) and not math.isfinite(value)):
            check_finite(name, value)


def settings_to_resume(settings: Settings, requested: Mapping[str, Any], run: Path) -> Settings:
    """The settings with which an interrupted run is resumed. Only those in HARMLESS may differ from the run's own."""
    requested = renamed(requested, settings)
    requested = {key: value for key, value in requested.items() if key not in decided_by_budget(settings)}
    written, wanted = (flatten(to_dict(s)) for s in (settings, changed(settings, requested)))
    for key in requested:
        if written.get(key) != wanted[key] and key not in HARMLESS:
            raise UsageError(f"{run} was started with {key}={written.get(key)}, not {wanted[key]}: resume it as it was")
    return changed(settings, {key: requested[key] for key in HARMLESS if key in requested})


def decided_by_budget(settings: Settings) -> tuple[str, ...]:
    """What a training finds out by itself, where it has a budget."""
    return () if settings.optim.budget is None else ("optim.steps", "trainer.round")


def what_counts(settings: Settings) -> dict[str, Any]:
    """All but how often a run is judged and saved, which stays as it was."""
    every = flatten(to_dict(settings))
    return {key: value for key, value in every.items() if key in HARMLESS or not key.startswith("trainer.")}


def write_config(settings: Settings, out: Path) -> None:
    with replacing(out / "config.yaml") as temporary:
        temporary.write_text(yaml.safe_dump(to_dict(settings), sort_keys=False), encoding="utf-8")


def summary(
    settings: Settings, steps: int, seconds: float, metrics: Any, cpu_seconds: float | None = None
) -> dict[str, Any]:
    """What a result says about a run."""
    return {
        "task": settings.task,
        "model": settings.model,
        "preset": settings.preset,
        "seed": settings.seed,
        "steps": steps,
        "seconds": round(seconds, 1),
        "cpu_seconds": cpu_seconds,
        "peak_megabytes": peak_megabytes(),
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


def peak_megabytes() -> int | None:
    """The most memory that this process has had."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit


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

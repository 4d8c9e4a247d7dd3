"""The tasks by name: their settings, models, presets and experiments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError, asked, unknown
from . import autoencoding, clevr, numbering
from .experiment import Experiment
from .settings import Settings, changed

Changes = Mapping[str, Any]


@dataclass
class Task:
    """A task as data: what `--model` and `--preset` change in its settings, and the experiment they describe."""

    settings: Callable[[], Settings]
    experiment: Callable[[Any], Experiment]
    models: Mapping[str, Changes]
    presets: Mapping[str, Changes]
    without_decoder: tuple[str, ...] = ()
    exceptions: Mapping[tuple[str, str], Changes] = field(default_factory=dict)
    """What a preset changes for one model: (preset, model) → changes."""


TASKS = {
    "autoencoding": Task(
        autoencoding.AutoencodingSettings, autoencoding.Autoencoding, autoencoding.MODELS, autoencoding.PRESETS
    ),
    "numbering": Task(
        numbering.NumberingSettings, numbering.Numbering, numbering.MODELS, numbering.PRESETS, numbering.BASELINES
    ),
    "clevr": Task(clevr.ClevrSettings, clevr.Clevr, clevr.MODELS, clevr.PRESETS, clevr.BASELINES, clevr.EXCEPTIONS),
}


def make_settings(
    task: str, model: str = "idspn", preset: str = "small", seed: int = 0, overrides: Changes | None = None
) -> Settings:
    """The settings of a run: the preset's, then the model's, then the overrides.

    >>> make_settings("autoencoding", "dspn", "paper", overrides={"data.n": 2}).adjoint.name
    'unrolled'
    """
    chosen = find_task(task)
    if model not in chosen.models:
        raise unknown(f"{task} model", model, chosen.models)
    if preset not in chosen.presets:
        raise unknown("preset", preset, chosen.presets)
    overrides = overrides or {}
    for key in overrides:
        if key in ("task", "model", "preset", "seed"):
            raise UsageError(
                f"{key} is not changed by key=value: use --{key}" if key != "task" else "the task comes first"
            )
        if model in chosen.without_decoder and key.split(".")[0] in ("solver", "adjoint", "init"):
            raise UsageError(f"{model} has no {key.split('.')[0]}: {key} is for the decoders, such as idspn")
    names = {"model": model, "preset": preset, "seed": seed}
    changes = {**chosen.presets[preset], **chosen.models[model], **chosen.exceptions.get((preset, model), {})}
    return changed(chosen.settings(), {**names, **changes, **overrides})


def make_experiment(settings: Settings) -> Experiment:
    with asked():
        return find_task(settings.task).experiment(settings)


def find_task(name: str) -> Task:
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    return TASKS[name]

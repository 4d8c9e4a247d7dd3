"""The tasks by name: their settings, models, presets and experiments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import UsageError, asked, unknown
from . import autoencoding, clevr, numbering, own
from .experiment import Experiment
from .settings import NAMES, Settings, changed

Changes = Mapping[str, Any]


@dataclass
class Task:
    """A task as data: what `--model` and `--preset` change in its settings, and the experiment they describe."""

    settings: Callable[[], Settings]
    experiment: Callable[[Any], Experiment]
    models: Mapping[str, Changes]
    presets: Mapping[str, Changes | Callable[[Any], Changes]]
    """Changes, or what makes them from the task's `data`; the first has the full size."""
    best: Callable[[Any], Changes] | None = None
    """What is recommended for the decoders, where there is evidence, beside what was published; made from settings."""
    without_decoder: tuple[str, ...] = ()
    exceptions: Mapping[tuple[str, str], Changes] = field(default_factory=dict)
    """What a preset changes for one model: (preset, model) → changes."""

    def iterates(self, model: str) -> bool:
        """Whether a model decodes by an inner optimisation."""
        return model not in self.without_decoder

    @property
    def sizes(self) -> dict[str, str]:
        """Every preset and the one whose size it has: what is recommended comes in each size."""
        full, *smaller = self.presets
        best = {"best": full} | {f"{size}-best": size for size in smaller}
        return {size: size for size in self.presets} | (best if self.best else {})


TASKS = {
    "autoencoding": Task(
        autoencoding.AutoencodingSettings,
        autoencoding.Autoencoding,
        autoencoding.MODELS,
        autoencoding.PRESETS,
        autoencoding.best,
    ),
    "numbering": Task(
        numbering.NumberingSettings,
        numbering.Numbering,
        numbering.MODELS,
        numbering.PRESETS,
        numbering.best,
        without_decoder=numbering.BASELINES,
    ),
    "clevr": Task(
        clevr.ClevrSettings,
        clevr.Clevr,
        clevr.MODELS,
        clevr.PRESETS,
        clevr.best,
        without_decoder=clevr.BASELINES,
        exceptions=clevr.EXCEPTIONS,
    ),
    "folder": Task(own.FolderSettings, own.OwnFolder, own.MODELS, own.PRESETS),
}


def make_settings(
    task: str, model: str = "idspn", preset: str = "small", seed: int = 0, overrides: Changes | None = None
) -> Settings:
    """The settings of a run: the preset's, then the model's, then the overrides.

    A task that is a folder of one's own data is opened, and what is in it becomes part of the settings.

    >>> make_settings("autoencoding", "dspn", "paper", overrides={"data.n": 2}).adjoint.name
    'unrolled'
    """
    given = as_named(task)
    chosen = find_task(given["task"])
    if model not in chosen.models:
        raise unknown(f"{task} model", model, chosen.models)
    if preset not in chosen.sizes:
        raise unknown("preset", preset, chosen.sizes)
    overrides = dict(overrides or {})
    for key in overrides:
        if key in NAMES:
            raise UsageError(
                f"{key} is not changed by key=value: use --{key}" if key != "task" else "the task comes first"
            )
    if "data.folder" in given:
        asked_size = {key: value for key, value in overrides.items() if key == "data.size"}
        pixels = changed(chosen.settings(), asked_size).data.size if asked_size else None
        overrides = own.describe(Path(given["data.folder"]), pixels) | overrides
    size = chosen.sizes[preset]
    data = {key: value for key, value in overrides.items() if key.startswith("data.")}
    sized = _for(chosen.presets[size], changed(chosen.settings(), data))
    recipe: Changes = {}
    if preset != size and chosen.best and chosen.iterates(model):
        asked_steps = {key: value for key, value in overrides.items() if key == "solver.steps"}
        recipe = chosen.best(changed(chosen.settings(), {**sized, **data, **asked_steps}))
    names = {"model": model, "preset": preset, "seed": seed}
    changes = {**sized, **recipe, **chosen.models[model], **chosen.exceptions.get((size, model), {})}
    settings = changed(chosen.settings(), {**names, **changes, **overrides})
    refuse_idle(settings, overrides)
    return settings


def _for(changes: Changes | Callable[[Any], Changes], settings: Settings) -> Changes:
    return changes(settings.data) if callable(changes) else changes


USED_BY = {
    "solver.momentum": ("nesterov",),
    "adjoint.straight": ("identity",),
    "adjoint.steps": ("conjugate-gradient",),
    "adjoint.gamma": ("conjugate-gradient",),
    "init.std": ("random", "learned"),
    "init.weight": ("learned",),
}


def refuse_idle(settings: Settings, overrides: Changes) -> None:
    """Raise where what is asked for would change nothing."""
    model, iterates = settings.model, find_task(settings.task).iterates(settings.model)
    for key in overrides:
        part = key.split(".")[0]
        if not iterates and part in ("solver", "adjoint", "init", "restart"):
            raise UsageError(f"{model} has no {part}: {key} is for the decoders, such as idspn")
        if not iterates and key == "optim.sets_first":
            raise UsageError(f"{model} has no decoder to learn first: {key} is for those that have, such as idspn")
        if key in USED_BY and getattr(settings, part).name not in USED_BY[key]:
            users, chosen = " and ".join(USED_BY[key]), getattr(settings, part).name
            raise UsageError(f"{key} is for {users}, not {chosen}: choose another {part}.name")
        if key == "restart.std" and settings.restart.share is None:
            raise UsageError("restart.std needs restarts: set restart.share, such as restart.share=0.05")


def make_experiment(settings: Settings) -> Experiment:
    with asked():
        try:
            return find_task(settings.task).experiment(settings)
        except (RuntimeError, TypeError, ArithmeticError) as error:  # what torch says to widths that cannot be
            raise UsageError(f"the settings make no model: {str(error).splitlines()[0]}") from None


def as_named(task: str) -> dict[str, str]:
    """What a person means by a task: its name, or the folder that holds its data.

    >>> as_named("clevr")
    {'task': 'clevr'}
    """
    if task not in TASKS and Path(task).is_dir():
        return {"task": "folder", "data.folder": str(Path(task).resolve())}
    return {"task": task}


def find_task(name: str) -> Task:
    if name not in TASKS:
        raise unknown("task", name, [*(task for task in TASKS if task != "folder"), "a folder of your data"])
    return TASKS[name]

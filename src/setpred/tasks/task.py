"""What a task is, the tasks by name, and the settings and experiments they make."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from ..errors import UsageError, unknown, usage_errors
from ..views.points import PointsView
from ..views.view import View
from . import OF_FOLDERS, TASKS
from .experiment import Experiment
from .old_spellings import renamed
from .settings import NAMES, Settings, changed, part_of

Changes = Mapping[str, Any]
Comparison = Literal["bars", "iterations", "distances"]


@dataclass
class Task:
    """A task as data: its settings, what `--model` and `--preset` change in them, the experiment they describe, and
    how its runs are compared and shown."""

    settings: Callable[[], Settings]
    experiment: Callable[[Any], Experiment]
    models: Mapping[str, Changes]
    presets: Mapping[str, Changes | Callable[[Any], Changes]]
    """Changes, or what makes them from the task's `data`; the first has the full size."""
    best: Callable[[Any], Changes] | None = None
    """What is recommended for the decoders, where there is evidence, beside what was published; made from settings."""
    usual_model: Callable[[str, Path | None], str] = lambda preset, folder: "idspn"
    """The model that is trained unless another is named, by the preset and, in a task of folders, the folder."""
    without_decoder: tuple[str, ...] = ()
    rivals: Callable[[Any], Sequence[str]] = lambda settings: ("idspn", "dspn")
    """The models that `setpred compare` compares by default, made from settings."""
    exceptions: Mapping[tuple[str, str], Changes | Callable[[Any], Changes]] = field(default_factory=dict)
    """What a preset changes for one model: (preset, model) → changes, or what makes them from the task's `data`."""
    describe: Callable[[Path, Changes], Changes] | None = None
    """Of a task of folders: the settings that say what is in one, from its path and the other overrides."""
    summary: Callable[[Any], str] | None = None
    """What a person should see before training, made from settings."""
    problem: Callable[[Any], str] = lambda settings: f"{settings.data.train:,} training examples"
    """The data in words, made from settings."""
    goal: str = ""
    """What a model has to do, in a sentence."""
    metric: str = "loss"
    """The metric that models are compared by."""
    meaning: str = "the mean distance between predicted and true elements, matched so that it is smallest"
    """What that metric is."""
    achievement: str = "has a loss of {}"
    """What a model did, after its name; `{}` is the value of the metric."""
    lower_is_better: bool = True
    comparison: Comparison = "bars"
    """How a report compares models: the metric as bars, losses by iterations, or precisions by distance."""
    remark: str = ""
    """A sentence that helps to read a comparison."""
    losses: tuple[str, ...] = ("chamfer",)
    """What `optim.loss` may be instead of the task's own loss; the Chamfer loss is for models that have a decoder."""
    baselines_differ: str = "on another loss"
    """How the training of models without a decoder differs, where there are some."""
    view: View = field(default_factory=PointsView)
    """How an example looks, in a report and in the playground."""
    shown: int = 256
    """How many test examples a report predicts."""
    multiplications: Callable[[Changes], float] = lambda flat: 0.0
    """Those of one example, forwards, about, made from flat settings: what a table of many runs is estimated by. The
    rivals' weigh more, as measured, because their matrices are small."""

    def iterates(self, model: str) -> bool:
        """Whether a model decodes by an inner optimisation."""
        return model not in self.without_decoder

    @property
    def sizes(self) -> dict[str, str]:
        """Every preset and the one whose size it has: what is recommended comes in each size."""
        full, *smaller = self.presets
        best = {"best": full} | {f"{size}-best": size for size in smaller}
        return {size: size for size in self.presets} | (best if self.best else {})


def make_settings(
    task: str, model: str | None = None, preset: str = "small", seed: int = 0, overrides: Changes | None = None
) -> Settings:
    """The settings of a run: the preset's, then the model's, then the overrides.

    Without a model it is the usual one of the task. A task that is a folder of one's own data is opened, and what is in
    it becomes part of the settings.

    >>> make_settings("autoencoding", "dspn", "paper", overrides={"data.n": 2}).adjoint
    {'class': 'Unrolled'}
    """
    given = as_named(task)
    chosen = find_task(given["task"])
    model = usual_model(task, preset) if model is None else model
    if model not in chosen.models:
        raise unknown(f"{task} model", model, chosen.models)
    if preset not in chosen.sizes:
        raise unknown("preset", preset, chosen.sizes)
    overrides = renamed(overrides or {}, chosen.settings())
    for key in overrides:
        if key in NAMES:
            raise UsageError(
                f"{key} is not changed by key=value: use --{key}" if key != "task" else "the task comes first"
            )
    if "data.folder" in given:
        assert chosen.describe is not None
        overrides = {**chosen.describe(Path(given["data.folder"]), overrides), **overrides}
    size = chosen.sizes[preset]
    data = {key: value for key, value in overrides.items() if key.startswith("data.")}
    described = changed(chosen.settings(), data)
    sized = _for(chosen.presets[size], described)
    recipe: Changes = {}
    if preset != size and chosen.best and chosen.iterates(model):
        requested_steps = {key: value for key, value in overrides.items() if key == "solver.steps"}
        recipe = chosen.best(changed(chosen.settings(), sized, data, requested_steps))
    names = {"model": model, "preset": preset, "seed": seed}
    exceptions = _for(chosen.exceptions.get((size, model), {}), described)
    settings = changed(chosen.settings(), names, sized, recipe, chosen.models[model], exceptions, overrides)
    refuse_idle(settings, overrides)
    return settings


def _for(changes: Changes | Callable[[Any], Changes], settings: Settings) -> Changes:
    return changes(settings.data) if callable(changes) else changes


def refuse_idle(settings: Settings, overrides: Changes) -> None:
    """Refuse changes that would have no effect; arguments that a part does not have are refused before."""
    model, task = settings.model, find_task(settings.task)
    iterates = task.iterates(model)
    for key in overrides:
        part = part_of(key)
        if not iterates and part is not None:
            raise UsageError(f"{model} has no {part}: {key} is for the decoders, such as idspn")
        if key == "optim.loss" and settings.optim.loss not in (None, *task.losses):
            raise unknown(key, str(settings.optim.loss), task.losses)
        chamfer = key == "optim.loss" and settings.optim.loss == "chamfer"
        if not iterates and (key in ("optim.sets_first", "optim.iterations") or chamfer):
            raise UsageError(f"{model} has no decoder: {key} is for models that have one, such as idspn")


def make_experiment(settings: Settings) -> Experiment:
    with usage_errors():
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
        return {"task": OF_FOLDERS, "data.folder": str(Path(task).resolve())}
    return {"task": task}


def usual_model(task: str, preset: str = "small") -> str:
    """The model that a task, or the folder of its data, is trained with unless another is named.

    >>> usual_model("clevr"), usual_model("clevr", "small-best")
    ('idspn', 'reader')
    """
    given = as_named(task)
    folder = given.get("data.folder")
    return find_task(given["task"]).usual_model(preset, None if folder is None else Path(folder))


def find_task(name: str) -> Task:
    if name not in TASKS:
        raise unknown("task", name, [*(task for task in TASKS if task != OF_FOLDERS), "a folder of your data"])
    return import_module(TASKS[name]).TASK

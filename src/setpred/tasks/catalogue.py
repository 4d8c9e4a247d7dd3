"""The models of a task, and its settings with their values and meanings.

Everything comes from the tables of the tasks, the constructors of the parts and their docstrings.
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..recipes import arguments, classes_of
from . import MODEL_NAMES, OF_FOLDERS, TASKS
from .parts import PARTS
from .settings import NAMES, Settings
from .task import find_task, make_settings

ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*?)(?=^    \S|^\S|\Z)", flags=re.M | re.S)
IMPLIED = ("options", "latent", "parts")
"""Arguments that follow from the task, or that no key=value can write."""
PART_SENTENCES = {
    "solver": "how the set moves",
    "adjoint": "how gradients come back through the search",
    "init": "where the search starts",
    "constraint": "where the elements may lie",
    "restart": "a second start for some examples",
}


class Model(NamedTuple):
    """A model, the tasks that have it, and a sentence about it."""

    name: str
    tasks: list[str]
    sentence: str


class Setting(NamedTuple):
    """A setting by its key, its value, and what it means; `value` is None where the chosen part does not have it."""

    key: str
    value: str | None
    sentence: str


def list_models(tasks: Iterable[str] = TASKS) -> list[Model]:
    """Every model of some tasks, in the order of their tables.

    >>> [model.name for model in list_models(["autoencoding"])][:5]
    ['idspn', 'idspn-no-momentum', 'dspn', 'idspn-sum', 'idspn-mean']
    """
    found: dict[str, list[str]] = {}
    for task in tasks:
        for name in find_task(task).models:
            found.setdefault(name, []).append(task)
    return [
        Model(name, where, MODEL_NAMES[name].sentence if name in MODEL_NAMES else "") for name, where in found.items()
    ]


def list_settings(task: str, model: str | None = None, preset: str = "small") -> list[Setting]:
    """Every setting of a task, or of a folder of data, with its value for a model and a preset.

    >>> next(setting for setting in list_settings("numbering") if setting.key == "solver.steps")
    Setting(key='solver.steps', value='20', sentence='inner iterations.')
    """
    settings = find_task(task).settings() if task == OF_FOLDERS else make_settings(task, model, preset)
    return [*_of_parts(settings), *_of_tables(settings)]


def _of_parts(settings: Settings) -> Iterator[Setting]:
    for part, kind in PARTS.items():
        classes, chosen = classes_of(kind), getattr(settings, part)
        name = None if chosen is None else chosen["class"]
        yield Setting(part, _shown(name), f"{PART_SENTENCES[part]}: {', '.join(classes)}")
        meanings: dict[str, list[str]] = {}
        owners: dict[str, list[str]] = {}
        for cls in classes:
            described = describe_arguments(classes[cls])
            for key in (key for key in arguments(classes[cls]) if key not in IMPLIED):
                meanings.setdefault(key, []).append(described.get(key, ""))
                owners.setdefault(key, []).append(cls)
        for key in meanings:
            mine = name in owners[key]
            text = describe_arguments(classes[str(name)]).get(key, "") if mine else meanings[key][0]
            of = "" if len(owners[key]) == len(classes) else f"[{', '.join(owners[key])}] "
            yield Setting(f"{part}.{key}", _shown(chosen.get(key)) if mine else None, of + text)


def _of_tables(settings: Settings) -> Iterator[Setting]:
    for table in fields(settings):
        inside = getattr(settings, table.name)
        if table.name in (*NAMES, *PARTS) or not is_dataclass(inside):
            continue
        described = describe_arguments(type(inside))
        for entry in fields(inside):
            value = getattr(inside, entry.name)
            yield Setting(f"{table.name}.{entry.name}", _shown(value), described.get(entry.name, ""))


def describe_arguments(cls: type) -> dict[str, str]:
    """What a class's docstring, and those of its bases, say about each argument or attribute.

    >>> from setpred import Nesterov
    >>> describe_arguments(Nesterov)["lr"]
    'step size.'
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text = inspect.cleandoc(base.__doc__ or "")
        for section in re.findall(r"^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", text, flags=re.M | re.S):
            for names, meaning in ENTRY.findall(section):
                found |= dict.fromkeys(names.split(", "), " ".join(meaning.split()))
    return found


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name") or value["class"])
    if isinstance(value, float):
        return f"{value:g}"
    text = str(Path(value).name if isinstance(value, str) and "/" in value else value)
    return {"None": "none", "True": "true", "False": "false"}.get(text, text if len(text) < 30 else text[:27] + "…")

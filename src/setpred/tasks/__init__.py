"""Tasks as data: what each learns from, its models and presets, how it is judged, drawn and shown.

A new task is a module with a `TASK`, and its line in the table.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .task import Task, find_task, make_experiment, make_settings

OF_FOLDERS = "folder"
"""The task of a folder that is named instead of a task."""
TASKS = {
    "numbering": "setpred.tasks.numbering",
    "autoencoding": "setpred.tasks.autoencoding",
    "clevr": "setpred.tasks.clevr_objects",
    OF_FOLDERS: "setpred.tasks.folder",
}
"""The module of each task; it is imported when the task is first asked for."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'setpred.tasks' has no attribute {name!r}")
    # Loads torch, which the command line needs later than the names of the tasks.
    return getattr(import_module(".task", __name__), name)


__all__ = ["OF_FOLDERS", "TASKS", "Task", "find_task", "make_experiment", "make_settings"]

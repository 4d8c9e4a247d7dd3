"""The published number that belongs to the settings of a run."""

from dataclasses import dataclass

from ..tasks import find_task, make_settings
from ..tasks.settings import Settings, flatten, to_dict
from .published import TABLES, find_table


@dataclass
class Published:
    """A published cell, in the units of our metrics."""

    mean: float
    std: float


def published_value(settings: Settings) -> Published | None:
    """What the paper says about exactly these settings, if it does."""
    if settings.task not in TABLES or settings.preset != "paper":
        return None
    table, asked = find_table(settings.task), flatten(to_dict(settings))
    examples = make_settings(settings.task, preset="paper").data.train
    for cell in table.cells:
        ours = table.models.get(cell.model)
        if ours is None or ours.model != settings.model or cell.mean is None or not cell.certain:
            continue
        if cell.metric != find_task(settings.task).metric:
            continue
        changes = {**ours.changes, **table.changes(cell, ours, examples)}
        if any(asked.get(key) != value for key, value in changes.items()):
            continue
        exact = make_settings(settings.task, ours.model, "paper", settings.seed, changes)
        apart = ("trainer.", "data.")
        same = all(
            asked.get(key) == value for key, value in flatten(to_dict(exact)).items() if not key.startswith(apart)
        )
        if same and table.same_data(settings.data, exact.data):
            return Published(cell.mean / table.scale, (cell.std or 0.0) / table.scale)
    return None


def published_nearby(settings: Settings) -> tuple[Published, str] | None:
    """What the paper says about a model at the size of its tables that is nearest to a run, and what that size is.

    >>> found, size = published_nearby(make_settings("numbering", "idspn", "small"))
    >>> found.mean, size
    (0.968, '64 elements of 4 classes, 640 training examples')
    """
    if settings.task not in TABLES:
        return None
    table, asked = find_table(settings.task), flatten(to_dict(settings))
    ours = next((ours for ours in table.models.values() if ours.model == settings.model and not ours.changes), None)
    if ours is None:
        return None
    real = {"data.source": "CLEVR"} if "data.source" in asked else {}
    same_axes = {key: asked[key] for key in table.changes(table.cells[0], ours, 1)}
    for overrides in (same_axes, {}):
        full = make_settings(settings.task, settings.model, "paper", 0, {**overrides, **real})
        if (found := published_value(full)) is not None:
            return found, "CLEVR's own images" if real else find_task(settings.task).problem(full)
    return None

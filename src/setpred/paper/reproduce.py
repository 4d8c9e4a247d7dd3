"""Any part of a published table: which runs it needs and where each lives; trained, and set beside the published."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from ..errors import UsageError, unknown
from ..tasks import find_task, make_settings
from ..tasks.settings import Settings, flatten, parse_overrides, part_of, to_dict
from ..training.run_folder import HARMLESS
from .executors import Processes, RayCluster
from .published import Cell, Table, find_table
from .scheduler import run_all
from .tables import Comparison, Plan, compare
from .trainings import Run, as_word, step_seconds
from .writers import check_names, write


def run_tables(
    table: str,
    words: Sequence[str] = (),
    out: Path = Path("runs/reproduce"),
    workers: int | None = None,
    preset: str = "paper",
    to: Sequence[Path] = (),
    ray: str | None = None,
    within: float | None = None,
) -> list[Comparison]:
    """Train the runs that are not finished, and compare: one table, or one for each choice of a sweep.

    Args:
        table: `numbering`, `autoencoding` or `clevr`.
        words: filters (`n=4 d=2,4 model=idspn seeds=0-7`) and settings (`solver.eval_steps=40`, which departs from the
            published protocol and gets folders of its own). Repeat a setting to sweep it.
        out: the folder that holds a folder a table.
        workers: how many runs at a time; 0 trains nothing and compares the cells of which a run is finished.
        preset: `paper`, or a smaller one.
        to: files to write, in the formats of their endings: .md, .tex, .csv, .json.
        ray: the address of a Ray cluster to train on, instead of this machine.
        within: train for so many seconds, the cheapest runs first.
    """
    check_names(to)
    plans = [make_plan(table, choice, out, preset) for choice in choices(words)]
    if to and len(plans) > 1:
        raise UsageError(f"{len(plans)} tables do not fit into one file: use --keep FOLDER, or give each setting once")
    runs = list({run.folder: run for plan in plans for run in plan.runs}.values())
    remarks = {}
    if workers != 0:
        remarks = run_all(runs, Processes(workers) if ray is None else RayCluster(ray, workers), within)
    comparisons = [compare(plan, remarks) for plan in plans]
    if workers == 0:
        comparisons = [begun for comparison in comparisons if (begun := comparison.begun()).rows]
        if not comparisons:
            folders = ", ".join(str(plan.folder) for plan in plans)
            raise UsageError(f"no run of this part is finished in {folders}: train it, without --workers 0")
    for path in to:
        write(comparisons[0], path)
    return comparisons


def choices(words: Sequence[str]) -> list[list[str]]:
    """The words of each table of a sweep: all combinations of the settings that are given several times.

    >>> choices(["n=4", "optim.lr=1e-3", "optim.lr=3e-4"])
    [['n=4', 'optim.lr=1e-3'], ['n=4', 'optim.lr=3e-4']]
    """
    filters, settings = split_words(words)
    values: dict[str, list[str]] = {}
    for word in settings:
        values.setdefault(word.partition("=")[0], []).append(word)
    return [[*filters, *choice] for choice in product(*values.values())]


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Filters of the table, and settings of the runs, whose names have a dot or are those of parts.

    >>> split_words(["n=4", "optim.lr=1e-3"])
    (['n=4'], ['optim.lr=1e-3'])
    """
    filters = [word for word in words if "." not in word.partition("=")[0] and part_of(word.partition("=")[0]) is None]
    return filters, [word for word in words if word not in filters]


def make_plan(name: str, words: Sequence[str], out: Path, preset: str = "paper") -> Plan:
    """The plan for filters such as `n=4 d=2,4 steps=10 model=idspn seeds=0-7`, and settings such as `optim.lr=3e-4`.

    >>> plan = make_plan("autoencoding", ["n=4", "d=2,4", "steps=10", "model=idspn", "seeds=0-1"], Path("runs"))
    >>> [run.name for run in plan.runs][:3]
    ['idspn-n4-d2-steps10-seed0', 'idspn-n4-d4-steps10-seed0', 'idspn-n4-d2-steps10-seed1']
    """
    table = find_table(name)
    if preset not in find_task(name).sizes:
        raise unknown("preset", preset, find_task(name).sizes)
    filters, settings = split_words(words)
    changes = parse_overrides(settings)
    cells, seeds = select(table, filters)

    departing = {key: value for key, value in sorted(changes.items()) if key not in HARMLESS}
    folder = out / _folder_name(table.name, preset, departing)
    # Settings take long to make: those of a model show whether the changes are right in all of its cells.
    models = {
        model: make_settings(name, table.models[model].model, preset, 0, changes)
        for model in dict.fromkeys(cell.model for cell in cells)
    }
    flat = {model: flatten(to_dict(settings)) for model, settings in models.items()}
    planned = [
        (
            cell,
            tuple(_run(table, cell, seed, models[cell.model], changes, folder, flat[cell.model]) for seed in seeds),
        )
        for cell in cells
    ]
    firsts = {cell.model: (cell, runs[0]) for cell, runs in reversed(planned)}
    if preset == "paper" and not any(key.startswith("data.") for key in changes):
        comparable = all(table.same_data(base.data, base.data) for base in models.values())  # cells are the paper's
    else:
        comparable = all(_same_data(table, cell, run) for cell, run in firsts.values())
    if comparable:  # where CLEVR's own images lie is no departure
        departing.pop("data.source", None)
    departures = [f"preset {preset}"] * (preset != "paper") + [f"{k}={as_word(v)}" for k, v in departing.items()]
    options = [] if preset == "paper" else ["--preset", preset]
    command = shlex.join(["setpred", "reproduce", name, *words, *options])
    return Plan(table, planned, folder, command, tuple(departures), comparable)


def select(table: Table, filters: Sequence[str]) -> tuple[list[Cell], list[int]]:
    """The cells and seeds that `key=value` words choose."""
    wanted: dict[str, list[Any]] = {}
    for word in filters:
        key, equals, text = word.partition("=")
        if not equals:
            raise UsageError(f"{word!r} is not a filter: write key=value, such as {table.axes[0]}=4 or seeds=0-7")
        if key not in (*table.axes, "model", "seeds"):
            raise UsageError(f"unknown filter {key!r}: there are {', '.join(table.axes)}, model, seeds")
        if key in wanted:
            raise UsageError(f"{key} is given twice: join the values with commas, {key}=a,b")
        parts = [part.strip() for part in text.split(",")]
        if key == "seeds":
            wanted[key] = _seeds(parts)
        elif key == "model":
            wanted[key] = [_published_name(table, part) for part in parts]
        else:
            wanted[key] = [_axis_value(table, key, part) for part in parts]
    seeds = wanted.pop("seeds", list(range(table.seeds)))
    models = wanted.pop("model", list(table.models))
    cells = [
        cell
        for cell in table.cells
        if cell.model in models and all(cell.at[axis] in values for axis, values in wanted.items())
    ]
    if not cells:
        raise UsageError(f"no cell of the published {table.name} table fits {' '.join(filters)}: widen a filter")
    return cells, seeds


def _run(
    table: Table,
    cell: Cell,
    seed: int,
    base: Settings,
    changes: Mapping[str, Any],
    folder: Path,
    flat: Mapping[str, Any],
) -> Run:
    ours = table.models[cell.model]
    fixed = {**ours.changes, **table.changes(cell, ours, base.data.train)}
    if taken := fixed.keys() & changes:
        raise UsageError(f"{min(taken)} is chosen by the cell: use the filters {', '.join(table.axes)}, model")
    apart = [f"{axis}{cell.at[axis]}" for axis in table.axes if axis not in table.measured]
    name = "-".join([ours.name, *apart, f"seed{seed}"])
    seconds = base.optim.steps * step_seconds({**flat, **fixed})
    made = {**fixed, **changes}
    return Run(folder / name, table.name, ours.model, base.preset, seed, made, base.optim.steps, seconds)


def _same_data(table: Table, cell: Cell, run: Run) -> bool:
    ours = table.models[cell.model]
    train = make_settings(table.name, ours.model, "paper").data.train
    overrides = {**ours.changes, **table.changes(cell, ours, train)}
    return table.same_data(run.settings.data, make_settings(table.name, ours.model, "paper", overrides=overrides).data)


def _published_name(table: Table, name: str) -> str:
    """Our names come first: `idspn` is ours, with momentum, though the paper also has a model of that name."""
    ours = {model.name: published for published, model in table.models.items()}
    if name in ours:
        return ours[name]
    if name in table.models:
        return name
    raise unknown(f"{table.name} model", name, [*ours, *(m for m in table.models if m not in ours)])


def _axis_value(table: Table, axis: str, text: str) -> Any:
    known = {f"{value:g}": value for value in table.values(axis)}
    if text not in known:
        raise UsageError(f"{axis}={text} is not in the published table: there are {', '.join(known)}")
    return known[text]


def _seeds(parts: Sequence[str]) -> list[int]:
    seeds: list[int] = []
    for part in parts:
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise UsageError(f"seeds={','.join(parts)} cannot be read: write seeds=0-7 or seeds=0,3")
        seeds += range(int(first), int(last if dash else first) + 1)
    return list(dict.fromkeys(seeds))


def _folder_name(table: str, preset: str, departing: Mapping[str, Any]) -> str:
    name = table if preset == "paper" else f"{table}-{preset}"
    changes = "+".join(f"{key}={as_word(value)}" for key, value in departing.items()).replace("/", "_")
    if len(changes) > 100:  # file systems end names at 255 bytes
        changes = hashlib.sha1(changes.encode()).hexdigest()[:10]
    return f"{name}+{changes}" if changes else name

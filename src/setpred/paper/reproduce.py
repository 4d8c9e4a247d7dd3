"""Any part of a published table, trained again and set beside it."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from ..errors import UsageError
from .plan import make_plan, told_apart
from .processes import Processes
from .ray_cluster import RayCluster
from .scheduler import run_all
from .tables import Comparison, compare
from .writers import check_names, write


def run_tables(
    table: str,
    words: Sequence[str] = (),
    out: Path = Path("runs/reproduce"),
    workers: int | None = None,
    preset: str = "paper",
    to: Sequence[Path] = (),
    ray: str | None = None,
) -> list[Comparison]:
    """Train the runs that are not finished, and compare: one table, or one for each choice of a sweep.

    Args:
        table: `numbering`, `autoencoding` or `clevr`.
        words: filters (`n=4 d=2,4 model=idspn seeds=0-7`) and settings (`solver.eval_steps=40`, which departs from the
            published protocol and gets folders of its own). A setting given several times is swept.
        out: the folder that holds a folder a table.
        workers: how many runs at a time; 0 trains nothing and compares the cells of which a run is finished.
        preset: `paper`, or a smaller one.
        to: files to write, in the formats of their endings: .md, .tex, .csv, .json.
        ray: the address of a Ray cluster to train on, instead of this machine.
    """
    check_names(to)
    plans = [make_plan(table, choice, out, preset) for choice in choices(words)]
    if to and len(plans) > 1:
        raise UsageError(f"{len(plans)} tables do not fit into one file: use --keep FOLDER, or give each setting once")
    runs = list({run.folder: run for plan in plans for run in plan.runs}.values())
    remarks = {}
    if workers != 0:
        remarks = run_all(runs, Processes(workers) if ray is None else RayCluster(ray, workers))
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
    filters, settings = told_apart(words)
    values: dict[str, list[str]] = {}
    for word in settings:
        values.setdefault(word.partition("=")[0], []).append(word)
    return [[*filters, *choice] for choice in product(*values.values())]

"""Any part of a published table, trained again and set beside it."""

from collections.abc import Sequence
from pathlib import Path

from . import ray_runs
from .plan import make_plan
from .processes import run_all
from .tables import Comparison, compare
from .writers import check_names, write


def run_table(
    table: str,
    words: Sequence[str] = (),
    out: Path = Path("runs/reproduce"),
    workers: int | None = None,
    preset: str = "paper",
    to: Sequence[Path] = (),
    ray: str | None = None,
) -> Comparison:
    """Train the runs that are not finished, and compare.

    Args:
        table: `numbering`, `autoencoding` or `clevr`.
        words: filters (`n=4 d=2,4 model=idspn seeds=0-7`) and settings (`solver.eval_steps=40`, which departs from the
            published protocol and gets folders of its own).
        out: the folder that holds a folder a table.
        workers: how many runs at a time; 0 trains nothing and compares the cells of which a run is finished.
        preset: `paper`, or a smaller one.
        to: files to write, in the formats of their endings: .md, .tex, .csv, .json.
        ray: the address of a Ray cluster to train on, instead of this machine.
    """
    check_names(to)
    plan = make_plan(table, words, out, preset)
    if workers == 0:
        remarks = []
    elif ray is None:
        remarks = run_all(plan.runs, workers)
    else:
        remarks = ray_runs.run_all(plan.runs, ray, workers)
    comparison = compare(plan, remarks)
    if workers == 0:
        comparison = comparison.begun()
    for path in to:
        write(comparison, path)
    return comparison

"""The command `setpred compare`."""

from pathlib import Path
from typing import Annotated

import typer

from .data.sources import SOURCES
from .errors import UsageError
from .tasks import OF_FOLDERS, TASKS
from .terminal import examples, loading

EXAMPLES = examples(
    "setpred compare my_data --budget 10m",
    "setpred compare chords numbering --models idspn,mlp,queries --budget 90s --seeds 1 --preset quick",
)
NAMED = ", ".join([*(name for name in TASKS if name != OF_FOLDERS), *SOURCES])


def compare(
    tasks: Annotated[list[str], typer.Argument(metavar="TASK...", help=f"{NAMED}, or folders of your data.")],
    models: Annotated[str | None, typer.Option(help="By commas. [default: all rivals of the task]")] = None,
    budget: Annotated[str, typer.Option(help="Processor time of each run: 90s, 10m, 1h.")] = "10m",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each model.")] = 3,
    preset: Annotated[str, typer.Option(help="The size of the models and their data.")] = "small",
    out: Annotated[Path, typer.Option(help="Where runs, tables and the page are kept.")] = Path("runs/compare"),
    workers: Annotated[
        int | None, typer.Option(min=0, help="Runs at a time; 0 only compares what is finished. [default: the cores]")
    ] = None,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster to train on; auto finds it.")] = None,
) -> None:
    """Train several models for the same processor time, and say which to use: a table and a page for each task.

    The same command goes on where it was stopped.
    """
    with loading():
        from .compare import run_contest

    names = [name.strip() for name in models.split(",")] if models else []
    try:
        boards = run_contest(tasks, names, budget, seeds, preset, out, workers, ray)
    except KeyboardInterrupt:
        raise UsageError("stopped: the same command goes on from the last checkpoints") from None
    for board in boards:
        typer.echo(board.markdown())
    typer.echo(out / "compare.html")

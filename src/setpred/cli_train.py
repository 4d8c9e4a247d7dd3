"""The commands that train and judge models: train, evaluate, compare; models and settings list what can be trained."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from .data.sources import SOURCES
from .errors import UsageError
from .tasks import MODEL_NAMES, OF_FOLDERS, TASKS
from .terminal import examples, loading

NAMED = [name for name in TASKS if name != OF_FOLDERS]
COMPARED = ", ".join([*NAMED, *SOURCES])
PRESETS = ["quick", "small", "paper", "quick-best", "small-best", "best"]

train_app = typer.Typer()


def complete_task(incomplete: str) -> list[str]:
    """For the shell: tasks, or folders that hold data."""
    folders = sorted(path.parent.as_posix() for path in Path().glob("*/train.jsonl"))
    return [name for name in (*NAMED, *folders) if name.startswith(incomplete)]


def complete_model(incomplete: str) -> list[tuple[str, str]]:
    """For the shell: models and what each is."""
    return [(name, named.sentence) for name, named in MODEL_NAMES.items() if name.startswith(incomplete)]


def complete_preset(incomplete: str) -> list[str]:
    """For the shell."""
    return [name for name in PRESETS if name.startswith(incomplete)]


Task = Annotated[
    str,
    typer.Argument(metavar="TASK", help=f"{', '.join(NAMED)}, or a folder of your data.", autocompletion=complete_task),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="The model; `setpred models TASK` lists them. [default: reader for your own images and for best "
        "presets of clevr, else idspn]",
        autocompletion=complete_model,
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="Size of the training: quick, small or paper (the published protocol). With our recommended recipe: "
        "quick-best, small-best, best. [default: small]",
        autocompletion=complete_preset,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...",
        help="Settings to change, such as solver.steps=40; `setpred settings TASK` lists them.",
    ),
]


@train_app.command(
    epilog=examples(
        "setpred train numbering",
        "setpred train autoencoding --preset quick-best data.n=8",
        "setpred train clevr --preset small-best --out runs/scenes",
        "setpred train my_data --seed 1",
        "setpred train numbering --resume",
    )
)
def train(
    task: Task,
    overrides: Overrides = None,
    model: Model = None,
    preset: Preset = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random. [default: 0]")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder. [default: runs/TASK-MODEL-PRESET-seedN]")] = None,
    resume: Annotated[bool, typer.Option(help="Continue the run in this folder from its last checkpoint.")] = False,
) -> None:
    """Train a model into a run folder, which holds its settings, metrics, weights and result."""
    with loading():
        from .report.verdict import verdict_lines
        from .tasks.settings import parse_overrides
        from .tasks.task import as_named, find_task, make_settings, usual_model
        from .training.run import speaks
        from .training.run import train as run_training
        from .training.run_folder import read_config, settings_to_resume

    changes = parse_overrides(overrides or [])
    trained, size = model or usual_model(task, preset or "small"), preset or "small"
    folder = out or Path("runs") / f"{Path(os.path.abspath(task)).name}-{trained}-{size}-seed{seed or 0}"
    if resume and (folder / "config.yaml").exists():
        options = {"model": model, "preset": preset, "seed": seed}
        requested = as_named(task) | {name: value for name, value in options.items() if value is not None} | changes
        settings = settings_to_resume(read_config(folder), requested, folder)
    else:
        settings = make_settings(task, model, preset or "small", seed or 0, changes)
    summary = find_task(settings.task).summary
    if summary is not None and speaks():
        typer.echo(summary(settings))
    try:
        result = run_training(settings, folder, resume=resume)
    except KeyboardInterrupt:
        raise UsageError(f"stopped: continue with the same command and --out {folder} --resume") from None
    except UsageError:
        raise
    except ValueError as error:  # the library refuses, such as weights that are no longer numbers
        raise UsageError(f"training stopped: {str(error).splitlines()[0]}") from None
    if speaks():
        show_metrics({str(result["steps"]): result["metrics"]}, "step")
        for line in verdict_lines(settings, result):
            typer.echo(line)
        typer.echo(f"{folder} ({result['seconds']:.0f} s). Next: setpred report {folder}")


@train_app.command(
    epilog=examples(
        "setpred evaluate runs/numbering-idspn-small-seed0",
        "setpred evaluate runs/numbering-idspn-small-seed0 steps=10,20,40",
        "setpred evaluate runs/autoencoding-idspn-small-seed0 data.test=64000 --json",
    )
)
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[steps=10,20,40] [KEY=VALUE]...", help="Numbers of inner iterations, and other settings to change."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Evaluate a run again, with other numbers of inner iterations or on other data."""
    with loading():
        from .tasks import find_task
        from .tasks.parts import build_part
        from .tasks.settings import parse_overrides
        from .training.run import evaluate as run_evaluation
        from .training.run_folder import read_config

    changes = parse_overrides(words or [])
    requested = changes.pop("steps", None)
    settings = read_config(run)
    if not find_task(settings.task).iterates(settings.model):
        if requested is not None:
            raise UsageError(f"{settings.model} has no iterations: evaluate it without steps=")
        rows = {"test": run_evaluation(run, changes)}
    else:
        for key in ("solver.steps", "solver.eval_steps"):
            if key in changes:
                raise UsageError(f"{key} is not changed this way: evaluate with steps={changes[key]}")
        usual = build_part("solver", settings.solver).iterations()
        counts = [usual] if requested is None else _whole_numbers(requested)
        rows = {str(count): run_evaluation(run, {**changes, "solver.eval_steps": count}) for count in counts}
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        show_metrics(rows, "" if "test" in rows else "iterations")


@train_app.command(
    epilog=examples(
        "setpred compare my_data --budget 10m",
        "setpred compare chords numbering --models idspn,mlp,queries --budget 90s --seeds 1 --preset quick",
    )
)
def compare(
    tasks: Annotated[
        list[str], typer.Argument(metavar="TASK...", help=f"{', '.join([*NAMED, *SOURCES])}, or folders of your data.")
    ],
    models: Annotated[
        str | None, typer.Option(help="Models, separated by commas. [default: all rivals of the task]")
    ] = None,
    budget: Annotated[str, typer.Option(help="Processor time of each run: 90s, 10m, 1h.")] = "10m",
    seeds: Annotated[int, typer.Option(min=1, max=1_000, help="Runs per model, each with its own seed.")] = 3,
    preset: Annotated[str, typer.Option(help="Size of the models and their data: quick, small or paper.")] = "small",
    out: Annotated[Path, typer.Option(help="Folder for the runs, tables and the page.")] = Path("runs/compare"),
    workers: Annotated[
        int | None,
        typer.Option(
            min=0, help="Number of runs at a time; 0 compares finished runs only. [default: the number of cores]"
        ),
    ] = None,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster to train on; auto finds it.")] = None,
) -> None:
    """Train several models for the same processor time, and compare them in a table and a page for each task.

    After an interruption, the same command continues.
    """
    with loading():
        from .compare import make_contests, train_all, write_leaderboards

    names = [name.strip() for name in models.split(",")] if models else []
    try:
        contests = make_contests(tasks, names, budget, seeds, preset, out)
        if workers != 0:
            train_all(contests, workers, ray)
        boards = write_leaderboards(contests, out)
    except KeyboardInterrupt:
        raise UsageError("stopped: the same command goes on from the last checkpoints") from None
    for board in boards:
        typer.echo(board.markdown())
    typer.echo(out / "compare.html")


@train_app.command(epilog=examples("setpred models", "setpred models clevr"))
def models(
    task: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="Only models of this task.", autocompletion=complete_task)
    ] = None,
) -> None:
    """List the models that can be trained, with their tasks."""
    with loading():
        from .tasks.catalogue import list_models
        from .tasks.task import as_named, find_task, usual_model

    chosen = list(TASKS) if task is None else [as_named(task)["task"]]
    table = Table("model", *([] if task else ["tasks"]), "what it is", box=None, pad_edge=False)
    for model in list_models(chosen):
        default = task is not None and model.name == usual_model(task)
        table.add_row(model.name, *([] if task else [", ".join(model.tasks)]), model.sentence + default * " (default)")
    Console().print(table)
    if task is not None:
        typer.echo(f"\nPresets: {', '.join(find_task(chosen[0]).sizes)}. Settings: setpred settings {task}")


@train_app.command(
    epilog=examples("setpred settings numbering", "setpred settings autoencoding --model dspn --preset paper")
)
def settings(task: Task, model: Model = None, preset: Preset = None) -> None:
    """List every setting of a task with its value and its meaning; `setpred train TASK KEY=VALUE` changes it."""
    with loading():
        from .tasks.catalogue import list_settings

    table = Table("setting", "value", "meaning", box=None, pad_edge=False)
    part = ""
    for setting in list_settings(task, model, preset or "small"):
        if part not in ("", setting.key.partition(".")[0]):
            table.add_row()
        part = setting.key.partition(".")[0]
        meaning = setting.sentence.replace("`", "").replace("None", "none")  # as one types it here
        table.add_row(setting.key, "" if setting.value is None else escape(setting.value), escape(meaning))
    Console().print(table)
    typer.echo("\nA setting without a value belongs to a class that is not chosen, which [brackets] name.")


def show_metrics(columns: dict[str, dict[str, float]], label: str) -> None:
    """Print a table with one row per metric and one column per setting."""
    table = Table(label, *(Column(name, justify="right") for name in columns))
    for metric in dict.fromkeys(name for metrics in columns.values() for name in metrics):
        values = (metrics.get(metric) for metrics in columns.values())
        table.add_row(escape(metric), *("–" if value is None else f"{value:.4g}" for value in values))
    Console().print(table)


def _whole_numbers(value: Any) -> list[int]:
    try:
        numbers = [int(word) for word in str(value).split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UsageError(f"steps={value}: write whole numbers from 1 on, such as steps=10,20,40")
    return numbers

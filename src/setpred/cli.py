"""The command line: `setpred --help`."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from . import __version__
from .cli_data import data_app
from .errors import UsageError
from .tasks import OF_FOLDERS, TASKS

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Set prediction for PyTorch: a vector, an image or a set in, a multiset out.",
)

app.add_typer(data_app, name="data")


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"setpred {__version__}")
        raise typer.Exit


@app.callback()
def every_command(
    shown: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Say which version this is.")
    ] = False,
) -> None:
    """What all commands have in common."""


NAMED = ", ".join(name for name in TASKS if name != OF_FOLDERS)
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings, such as solver.steps=40.")
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")]


@app.command()
def train(
    task: Annotated[str, typer.Argument(metavar="TASK", help=f"{NAMED} or a folder of your data.")],
    overrides: Overrides = None,
    model: Annotated[
        str | None, typer.Option(help="idspn, dspn, … [default: reader for images of your own, else idspn]")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="quick, small or paper; our recipe as quick-best, small-best, best [default: small]"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="[default: 0]")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder. [default: runs/TASK-MODEL-PRESET-seedN]")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the run in --out.")] = False,
) -> None:
    """Train a model; the run folder holds its settings, metrics, weights and result."""
    from .tasks.settings import parse_overrides
    from .tasks.task import as_named, find_task, make_settings, usual_model
    from .training.run import speaks
    from .training.run import train as run_training
    from .training.run_folder import read_config, resumed_as_asked

    changes = parse_overrides(overrides or [])
    trained, size = model or usual_model(task, preset or "small"), preset or "small"
    folder = out or Path("runs") / f"{Path(task).resolve().name}-{trained}-{size}-seed{seed or 0}"
    if resume and (folder / "config.yaml").exists():
        options = {"model": model, "preset": preset, "seed": seed}
        asked = as_named(task) | {name: value for name, value in options.items() if value is not None} | changes
        settings = resumed_as_asked(read_config(folder), asked, folder)
    else:
        settings = make_settings(task, model, preset or "small", seed or 0, changes)
    summary = find_task(settings.task).summary
    if summary is not None and speaks():
        typer.echo(summary(settings))
    try:
        result = run_training(settings, folder, resume=resume)
    except KeyboardInterrupt:
        raise UsageError(f"stopped: go on with the same command and --out {folder} --resume") from None
    except UsageError:
        raise
    except ValueError as error:  # the library refuses, such as weights that are no longer numbers
        raise UsageError(f"training stopped: {str(error).splitlines()[0]}") from None
    if speaks():
        show_metrics({str(result["steps"]): result["metrics"]}, "step")
        typer.echo(f"{folder} ({result['seconds']:.0f} s). Next: setpred report {folder}")


@app.command()
def evaluate(
    run: Run,
    words: Annotated[list[str] | None, typer.Argument(metavar="[steps=10,20,40] [KEY=VALUE]...")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Evaluate a run again: with other iterations (steps=10,20,100) or other data (data.test=64000)."""
    from .tasks import find_task
    from .tasks.settings import parse_overrides
    from .training.run import evaluate as run_evaluation
    from .training.run_folder import read_config

    changes = parse_overrides(words or [])
    asked = changes.pop("steps", None)
    settings = read_config(run)
    if not find_task(settings.task).iterates(settings.model):
        if asked is not None:
            raise UsageError(f"{settings.model} has no iterations: evaluate it without steps=")
        rows = {"test": run_evaluation(run, changes)}
    else:
        for key in ("solver.steps", "solver.eval_steps"):
            if key in changes:
                raise UsageError(f"{key} is not changed this way: evaluate with steps={changes[key]}")
        counts = [settings.solver["eval_steps"] or settings.solver["steps"]] if asked is None else _whole_numbers(asked)
        rows = {str(count): run_evaluation(run, {**changes, "solver.eval_steps": count}) for count in counts}
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        show_metrics(rows, "" if "test" in rows else "iterations")


@app.command()
def predict(
    model: Annotated[str, typer.Argument(metavar="RUN|PRETRAINED", help="A run folder or a saved model.")],
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUT...", help="Images, folders of images, .jsonl files, - for stdin.")
    ],
    steps: Annotated[int | None, typer.Option(min=1, help="Inner iterations. [default: the model's]")] = None,
    threshold: Annotated[float, typer.Option(help="Presence from which on an element is an object.")] = 0.5,
) -> None:
    """Predict the objects of inputs: one JSON line each, in the units of the data, with confidences."""
    from .prediction import load_model
    from .prediction import predict as run_prediction

    try:
        run_prediction(load_model(model), inputs, typer.echo, steps, threshold)
    except BrokenPipeError:  # whoever reads has seen enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.command()
def export(
    model: Annotated[str, typer.Argument(metavar="RUN|PRETRAINED", help="A run folder or a saved model.")],
    to: Annotated[str, typer.Option(help="onnx, torch (for torch.export.load) or pretrained.")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="What to write. [default: model.onnx and such beside it]")] = None,
    half: Annotated[bool, typer.Option("--half", help="Pretrained folders: weights of half precision.")] = False,
) -> None:
    """Write a trained model to run elsewhere: onnx and torch need no setpred, a pretrained folder loads there.

    Files of onnx and torch start every example once, also where the model would restart some.
    """
    from .export.trained import export_trained

    typer.echo(export_trained(model, to, out, half))


@app.command()
def check(
    what: Annotated[
        str, typer.Argument(metavar="RUN|MODEL", help="A run folder, or a model such as idspn or push_apart.")
    ],
) -> None:
    """Say which equivariance a model has, with a witness where it lacks one."""
    from .training.verdicts import check_named, check_run

    folder = Path(what)
    report = check_run(folder) if folder.exists() else check_named(what)
    typer.echo(str(report))


@app.command()
def report(
    runs: Runs,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Also save the figures here, as PNG.")] = None,
) -> None:
    """Write one self-contained HTML page about some runs."""
    from .report import report as write_report

    typer.echo(write_report(runs, out, figures=figures))


@app.command()
def reproduce(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="numbering, autoencoding or clevr.")],
    words: Annotated[list[str] | None, typer.Argument(metavar="[n=4] [d=2,4] [model=idspn] [seeds=0-7] ...")] = None,
    out: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/reproduce"),
    workers: Annotated[
        int | None, typer.Option(min=0, help="Runs at a time; 0 only compares what is finished. [default: the cores]")
    ] = None,
    preset: Annotated[str, typer.Option(help="paper is the published protocol, best our recipe.")] = "paper",
    to: Annotated[list[Path] | None, typer.Option(help="Also write the table: .md, .tex, .csv or .json.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder for the table in all formats with its curves.")] = None,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster to train on; auto finds it.")] = None,
) -> None:
    """Train any part of a published table and set ours beside the published mean ± std.

    Settings depart from the protocol (optim.lr=3e-4); one that is given several times is swept, a table a value.
    """
    from .paper.reproduce import run_tables
    from .paper.writers import keep as keep_results
    from .paper.writers import markdown

    try:
        comparisons = run_tables(table, words or [], out, workers, preset, to or [], ray)
    except KeyboardInterrupt:
        raise UsageError("stopped: the same command goes on from the last checkpoints") from None
    for comparison in comparisons:
        typer.echo(markdown(comparison))
    if keep is not None:
        for comparison in comparisons:
            folder = keep if len(comparisons) == 1 else keep / comparison.plan.folder.name
            for path in keep_results(comparison, folder):
                typer.echo(path)


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Where the runs and the page go.")] = Path("runs/demo")) -> None:
    """See the main job end to end, in a few minutes on two cores."""
    from .demo import demo as run_demo

    run_demo(out)


@app.command()
def play(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="[RUN]...", help="Run folders to show.")] = None,
    port: Annotated[int, typer.Option(help="0 takes any free one.")] = 8123,
    host: Annotated[str, typer.Option(help="0.0.0.0 opens it to the network.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="Open the page.")] = True,
) -> None:
    """Open the playground: see sets being found, in the browser."""
    from .play.launch import serve

    serve(runs or [], host, port, browser)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option(help="Under a minute: two settings, no growth curves.")] = False,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write all figures here.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw them here, as PNG.")] = None,
) -> None:
    """Measure speed and memory against the floor of the matrix products and against a naive loop."""
    from .bench.measure import measure, write

    results = measure(quick, say=typer.echo)
    if as_json is not None:
        write(results, as_json)
    if figure is not None:
        from .bench.figure import draw

        draw(results, figure)


def show_metrics(columns: dict[str, dict[str, float]], label: str) -> None:
    """Print a table: a row a metric, a column a setting."""
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

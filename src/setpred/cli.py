"""The command line: `setpred --help`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from . import __version__
from .cli_data import data_app
from .cli_train import train_app
from .errors import UsageError
from .terminal import examples, loading

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Set prediction for PyTorch: a vector, an image or a set in, a multiset out.",
    epilog=examples(
        "setpred demo",
        "setpred train numbering --preset quick",
        "setpred report runs/*",
        "setpred train --help",
    ),
)
app.registered_commands += train_app.registered_commands  # the first in the list of commands


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"setpred {__version__}")
        raise typer.Exit


@app.callback()
def every_command(
    shown: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """What all commands have in common."""


Model = Annotated[str, typer.Argument(metavar="RUN|PRETRAINED", help="A run folder or a saved model.")]


@app.command(
    epilog=examples(
        "setpred predict runs/my_data-reader-small-seed0 photo.png",
        "setpred predict runs/my_data-reader-small-seed0 photos/ > objects.jsonl",
        "setpred predict model/ inputs.jsonl --steps 40 --threshold 0.3",
    )
)
def predict(
    model: Model,
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUT...", help="Images, folders of images, .jsonl files, or - for stdin.")
    ],
    steps: Annotated[int | None, typer.Option(min=1, help="Inner iterations. [default: the model's own]")] = None,
    threshold: Annotated[float, typer.Option(help="Elements whose presence is at least this count as objects.")] = 0.5,
) -> None:
    """Predict the objects of inputs. Prints one JSON line per input, in the units of the data, with confidences."""
    with loading():
        from .prediction import load_model
        from .prediction import predict as run_prediction

    try:
        run_prediction(load_model(model), inputs, typer.echo, steps, threshold)
    except BrokenPipeError:  # whoever reads has seen enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.command(
    epilog=examples(
        "setpred report runs/numbering-idspn-small-seed0",
        "setpred report runs/* --out all.html --figures figures/",
    )
)
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, or folders that hold some.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Also save the figures as PNG files in this folder.")] = None,
) -> None:
    """Write one self-contained HTML page about some runs."""
    with loading():
        from .report import report as write_report

    typer.echo(write_report(runs, out, figures=figures))


@app.command(epilog=examples("setpred check runs/numbering-idspn-small-seed0", "setpred check push_apart"))
def check(
    what: Annotated[
        str, typer.Argument(metavar="RUN|MODEL", help="A run folder, or a model such as idspn or push_apart.")
    ],
) -> None:
    """Check which equivariances a model has, and show a counterexample where it lacks one."""
    with loading():
        from .training.verdicts import check_named, check_run

    folder = Path(what)
    found = check_run(folder) if folder.exists() else check_named(what)
    typer.echo(str(found))


@app.command(
    epilog=examples(
        "setpred export runs/clevr-reader-small-seed0",
        "setpred export runs/clevr-reader-small-seed0 --to torch --out scenes.pt2",
        "setpred export runs/clevr-reader-small-seed0 --to pretrained --half",
    )
)
def export(
    model: Model,
    to: Annotated[str, typer.Option(help="Format: onnx, torch (for torch.export.load) or pretrained.")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="What to write. [default: beside the model]")] = None,
    half: Annotated[bool, typer.Option("--half", help="Save the weights of a pretrained folder as float16.")] = False,
) -> None:
    """Write a trained model for use elsewhere: as an onnx or torch file, or as a folder that setpred can load.

    onnx and torch files run without setpred. They start every example once, even if the model has restarts.
    """
    with loading():
        from .export.formats import export_trained

    typer.echo(export_trained(model, to, out, half))


@app.command(
    epilog=examples(
        "setpred reproduce autoencoding n=2 d=2 steps=10 model=idspn seeds=0",
        "setpred reproduce numbering --preset small classes=4 samples=1 seeds=0-2",
        "setpred reproduce autoencoding n=4 d=4 optim.lr=1e-3 optim.lr=3e-3 --to table.md",
        "setpred reproduce all --within 12h",
    )
)
def reproduce(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="numbering, autoencoding, clevr, or all of them.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[n=4] [d=2,4] [model=idspn] [seeds=0-7] ...", help="Cells of the table, and settings to change."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the runs.")] = Path("runs/reproduce"),
    workers: Annotated[
        int | None,
        typer.Option(
            min=0, help="Number of runs at a time; 0 compares finished runs only. [default: the number of cores]"
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="paper (the published protocol), best (our recommended recipe), or a smaller size.")
    ] = "paper",
    to: Annotated[
        list[Path] | None, typer.Option(help="Also write the table to this .md, .tex, .csv or .json file.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Also write the table in all formats, with learning curves, to this folder.")
    ] = None,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster to train on; auto finds it.")] = None,
    within: Annotated[
        str | None, typer.Option(help="Train for this long, such as 12h, the cheapest runs first.")
    ] = None,
    clevr: Annotated[
        str | None, typer.Option(help="For all: the folder of CLEVR's images. Without it, its table is not trained.")
    ] = None,
    kept: Annotated[
        Path | None, typer.Option(help="For all: a folder of tables written by --keep. Their runs count as done.")
    ] = None,
) -> None:
    """Train any part of a published table, and print our results beside the published mean ± std.

    Settings such as optim.lr=3e-4 change the published protocol. Repeat a setting to sweep it; each value gets its
    own table. With all, the command trains as much of the paper as fits into --within, and prints how much is done.
    """
    with loading():
        from .paper.coverage import keep_paper, read_duration, run_paper
        from .paper.coverage import markdown as standing_table
        from .paper.reproduce import run_tables
        from .paper.writers import keep as keep_results
        from .paper.writers import markdown

    try:
        if table == "all":
            if words or to or preset != "paper":
                raise UsageError("reproduce all takes no cells, settings, --preset or --to: name a table for them")
            standing = run_paper(out, within, workers, clevr, kept, ray)
            typer.echo(standing_table(standing))
            for path in [] if keep is None else keep_paper(standing, keep):
                typer.echo(path)
            return
        seconds = None if within is None else read_duration(within)
        comparisons = run_tables(table, words or [], out, workers, preset, to or [], ray, seconds)
    except KeyboardInterrupt:
        raise UsageError("stopped: the same command continues from the last checkpoints") from None
    for comparison in comparisons:
        typer.echo(markdown(comparison))
    if keep is not None:
        for comparison in comparisons:
            folder = keep if len(comparisons) == 1 else keep / comparison.plan.folder.name
            for path in keep_results(comparison, folder):
                typer.echo(path)


@app.command(epilog=examples("setpred adopt model.ckpt --out runs/theirs"))
def adopt(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A .ckpt file of the paper's authors.")],
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
) -> None:
    """Turn a checkpoint of the paper's authors into a run folder, so that you can evaluate, check or report it."""
    with loading():
        from .paper.authors import adopt as adopt_checkpoint

    settings = adopt_checkpoint(checkpoint, out)
    typer.echo(f"{out}: {settings.model} of {settings.task}. Next: setpred evaluate {out}")


@app.command(epilog=examples("setpred demo", "setpred demo --out /tmp/demo"))
def demo(out: Annotated[Path, typer.Option(help="Folder for the runs and the page.")] = Path("runs/demo")) -> None:
    """Train eight small models in a few minutes on two cores, and write a page about them."""
    with loading():
        from .demo import demo as run_demo

    run_demo(out)


@app.command(epilog=examples("setpred play", "setpred play runs/my_data-reader-small-seed0 --port 0 --no-browser"))
def play(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="[RUN]...", help="Run folders to show.")] = None,
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes any free one.")] = 8123,
    host: Annotated[str, typer.Option(help="Address of the page; 0.0.0.0 opens it to the network.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Open the playground: see in the browser how sets are found."""
    with loading():
        from .play.launch import serve

    serve(runs or [], host, port, browser)


@app.command(
    epilog=examples(
        "setpred bench --quick",
        "setpred bench --json bench.json --figure bench.png",
        "setpred bench --device cuda --json gpu.json",
    )
)
def bench(
    quick: Annotated[bool, typer.Option(help="Measure two settings without growth curves, in under a minute.")] = False,
    device: Annotated[str, typer.Option(help="Device to measure: cpu, cuda or mps.")] = "cpu",
    as_json: Annotated[Path | None, typer.Option("--json", help="Write all measurements to this file.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the measurements to this PNG file.")] = None,
) -> None:
    """Measure speed and memory against the matrix products alone and against a naive loop."""
    with loading():
        from .bench.measure import checked_device, draw, measure, write

    results = measure(quick, say=typer.echo, device=checked_device(device))
    if as_json is not None:
        write(results, as_json)
    if figure is not None:
        draw(results, figure)


app.add_typer(data_app, name="data")

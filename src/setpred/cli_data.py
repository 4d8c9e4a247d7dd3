"""The commands of `setpred data`: make, inspect and import."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console

from .data.sources import SOURCES
from .errors import UsageError, usage_errors
from .terminal import examples, loading

data_app = typer.Typer(
    no_args_is_help=True,
    help="Make, inspect and import data.",
    epilog=examples("setpred data inspect my_data", "setpred data scenes --out scenes --count 100"),
)
import_app = typer.Typer(
    no_args_is_help=True,
    help="Convert data of other formats into a folder to train on.",
    epilog=examples("setpred data import coco instances.json images/ --out my_data"),
)
data_app.add_typer(import_app, name="import")

LARGE_SETS = 200
"""From this many objects on, `inspect` reports what training on sets costs."""


@data_app.command(
    epilog=examples(
        "setpred data scenes --out scenes --count 1000",
        "setpred data scenes --out scenes --split val --size 256 --seed 1",
    )
)
def scenes(
    out: Annotated[Path, typer.Option(help="Folder to write, in CLEVR's layout.")],
    count: Annotated[int, typer.Option(min=1, help="Number of images.")] = 1000,
    size: Annotated[int, typer.Option(min=16, max=1024, help="Pixels per side.")] = 128,
    seed: Annotated[int, typer.Option(help="The same seed gives the same scenes.")] = 0,
    split: Annotated[str, typer.Option(help="Which split to write: train or val.")] = "train",
) -> None:
    """Render scenes of CLEVR's world: images and the objects in them."""
    with loading():
        from rich.progress import Progress

        from .data.scenes import write as write_scenes

    progress = Progress(console=Console(stderr=True))
    bar = progress.add_task("rendering", total=count)

    def show(done: int, _: int) -> None:
        progress.start()
        progress.update(bar, completed=done)

    try:
        with usage_errors():
            write_scenes(out, count, size, seed, split, progress=show)
    finally:
        if progress.live.is_started:
            progress.stop()
    typer.echo(out)


def _describe(name: str, source: ModuleType, folder: Path) -> None:
    """Put a README.md and a picture of some examples into the folder of a source."""
    from .data.jsonl_folder import open_folder
    from .tasks import make_experiment, make_settings
    from .tasks.trivial import trivial_scores
    from .views.objects import draw_examples

    draw_examples(open_folder(folder), folder / "examples.png")
    scores = trivial_scores(make_experiment(make_settings(str(folder), "idspn", "quick")))
    lines = [
        f"| {answer} | {100 * found['score']:.1f} % | {100 * found['accuracy']:.1f} % |"
        for answer, found in scores.items()
    ]
    head = f"# {name.capitalize()}\n\n{source.ABOUT}\n![Four examples](examples.png)\n\n"
    table = "| the same prediction for every input | score | accuracy |\n|---|---:|---:|\n"
    (folder / "README.md").write_text(head + table + "\n".join(lines) + "\n", encoding="utf-8")


def _make(name: str) -> Callable[[Path], None]:
    """The command that makes the data of a source."""

    def command(out: Annotated[Path, typer.Option(help="Folder to write.")]) -> None:
        from .data.jsonl_folder import open_folder
        from .data.sources import make_source

        with usage_errors():
            make_source(name, out, partial(_describe, name))
            opened = open_folder(out)
        typer.echo(
            f"{out}: {len(opened.train):,} examples to train on, {len(opened.val):,} to judge. See its README.md"
        )

    return command


for _name, (_, _about) in SOURCES.items():
    _example = examples(f"setpred data {_name} --out {_name}", f"setpred train {_name}")
    data_app.command(_name, help=_about, epilog=_example)(_make(_name))


@data_app.command(epilog=examples("setpred data inspect my_data", "setpred data inspect my_data --write"))
def inspect(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with train.jsonl and val.jsonl.")],
    figure: Annotated[Path, typer.Option(help="Draw some examples to this PNG file.")] = Path("examples.png"),
    write: Annotated[
        bool, typer.Option("--write", help="Write the schema to DIR/schema.yaml, where you can correct it.")
    ] = False,
) -> None:
    """Print the schema of a data folder, draw examples, and report what looks wrong."""
    with loading():
        from .data.inspection import inspect as inspect_folder
        from .data.jsonl_folder import open_folder, read_schema, schema_text
        from .files import replacing
        from .views.objects import draw_examples

    with usage_errors():
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}: give one that holds train.jsonl and val.jsonl")
        found = inspect_folder(folder)
        written = folder / "schema.yaml"
        schema = read_schema(written) if written.exists() else found.schema
    for name, sizes in found.sizes.items():
        _remark(f"{name}: {sizes.total():,} examples, {_range(sizes)} objects each")
    for note in found.notes:
        _remark(f"check: {note}")
    _remark(f"schema ({'of schema.yaml' if written.exists() else 'inferred'}):")
    typer.echo(schema_text(schema).rstrip())
    if write and written.exists():
        raise UsageError(f"{written} exists and is never overwritten: move it away to infer another schema")
    if write:
        with replacing(written) as temporary:
            temporary.write_text(schema_text(schema), encoding="utf-8")
        _remark(f"written to {written}: correct it there")
    with usage_errors():
        opened = open_folder(folder, schema=schema)
    if schema.size >= LARGE_SETS:
        _say_cost(folder)
    with usage_errors():
        draw_examples(opened, figure)
    _remark(f"{len(opened.train):,} + {len(opened.val):,} examples can be used; some are drawn in {figure}")


Imported = Annotated[Path, typer.Option(help="Folder to write.")]
Fraction = Annotated[float, typer.Option(help="Fraction of the examples that go to val.jsonl.")]


@import_app.command(epilog=examples("setpred data import coco instances.json images/ --out my_data --val 0.2"))
def coco(
    detections: Annotated[Path, typer.Argument(metavar="JSON", help="Detections in COCO's format.")],
    images: Annotated[Path, typer.Argument(metavar="IMAGES", help="The folder with the images that JSON names.")],
    out: Imported,
    val: Fraction = 0.1,
) -> None:
    """Import boxes and classes of COCO's detection format."""
    from .data.importers import from_coco

    with usage_errors():
        _show_imported(from_coco(detections, images, out, val))


@import_app.command(
    epilog=examples(
        "setpred data import csv objects.csv --out my_data --id image --inputs image",
        "setpred data import csv atoms.csv --out molecules --inputs mass,charge",
    )
)
def csv(
    table: Annotated[Path, typer.Argument(metavar="CSV", help="A table with one object per row.")],
    out: Imported,
    id: Annotated[str, typer.Option(help="Column that says which example an object belongs to.")] = "id",
    inputs: Annotated[
        str, typer.Option(help='Columns of the input, separated by commas; "" if the objects are the input.')
    ] = "image",
    val: Fraction = 0.1,
) -> None:
    """Import a table with one object per row."""
    from .data.importers import from_csv

    with usage_errors():
        _show_imported(from_csv(table, out, id, [name for name in inputs.split(",") if name], val))


def _say_cost(folder: Path) -> None:
    """Report what training on large sets costs, and whether it would be refused."""
    from .tasks import make_experiment, make_settings
    from .training.step_cost import check_cost, step_cost

    experiment = make_experiment(make_settings(str(folder)))
    _remark(str(step_cost(experiment)))
    try:
        check_cost(experiment)
    except UsageError as error:
        _remark(f"setpred train would refuse: {error}")


def _remark(text: str) -> None:
    typer.echo(text, err=True)


def _range(sizes: Counter[int]) -> str:
    if not sizes:
        return "no"
    low, high = min(sizes), max(sizes)
    return str(low) if low == high else f"{low} to {high}"


def _show_imported(imported: Any) -> None:
    for note in imported.notes:
        _remark(f"note: {note}")
    typer.echo(f"{imported.folder}: {imported.train} examples to train on, {imported.val} to validate")

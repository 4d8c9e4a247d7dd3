"""The commands of `setpred data`: make, inspect and import."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from .errors import UsageError, asked

data_app = typer.Typer(no_args_is_help=True, help="Make, inspect and import data.")
import_app = typer.Typer(no_args_is_help=True, help="Bring data of other formats into a folder to train on.")
data_app.add_typer(import_app, name="import")


@data_app.command()
def scenes(
    out: Annotated[Path, typer.Option(help="Folder to write, in CLEVR's layout.")],
    count: Annotated[int, typer.Option(min=1, help="Images.")] = 1000,
    size: Annotated[int, typer.Option(min=16, max=1024, help="Pixels of a side.")] = 128,
    seed: Annotated[int, typer.Option(help="The same seed gives the same scenes.")] = 0,
    split: Annotated[str, typer.Option(help="train or val.")] = "train",
) -> None:
    """Render scenes of CLEVR's world: images and the objects in them."""
    from rich.progress import Progress

    from .data.scenes import write as write_scenes

    progress = Progress(console=Console(stderr=True))
    bar = progress.add_task("rendering", total=count)

    def show(done: int, _: int) -> None:
        progress.start()
        progress.update(bar, completed=done)

    try:
        with asked():
            write_scenes(out, count, size, seed, split, progress=show)
    finally:
        if progress.live.is_started:
            progress.stop()
    typer.echo(out)


@data_app.command()
def inspect(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with train.jsonl and val.jsonl.")],
    figure: Annotated[Path, typer.Option(help="Draw some examples here, as PNG.")] = Path("examples.png"),
    write: Annotated[bool, typer.Option("--write", help="Keep the schema as DIR/schema.yaml, to correct it.")] = False,
) -> None:
    """Print the schema of a data folder, draw examples, and say what looks wrong."""
    from .data.inspection import inspect as inspect_folder
    from .data.jsonl_folder import open_folder, read_schema, schema_text
    from .files import replacing
    from .views.objects import draw_examples

    with asked():
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}: give one that holds train.jsonl and val.jsonl")
        found = inspect_folder(folder)
        written = folder / "schema.yaml"
        schema = read_schema(written) if written.exists() else found.schema
    for name, sizes in found.sizes.items():
        _remark(f"{name}: {sizes.total():,} examples, {_range(sizes)} objects each")
    for note in found.notes:
        _remark(f"look: {note}")
    _remark(f"schema ({'of schema.yaml' if written.exists() else 'inferred'}):")
    typer.echo(schema_text(schema).rstrip())
    if write and written.exists():
        raise UsageError(f"{written} is there already and is never overwritten: move it away to infer another")
    if write:
        with replacing(written) as temporary:
            temporary.write_text(schema_text(schema), encoding="utf-8")
        _remark(f"written to {written}: correct it there")
    with asked():
        opened = open_folder(folder, schema=schema)
        draw_examples(opened, figure)
    _remark(f"{len(opened.train):,} + {len(opened.val):,} examples can be used; some are drawn in {figure}")


Imported = Annotated[Path, typer.Option(help="Folder to write.")]
Fraction = Annotated[float, typer.Option(help="Fraction of the examples that go to val.jsonl.")]


@import_app.command()
def coco(
    detections: Annotated[Path, typer.Argument(metavar="JSON", help="Detections in COCO's format.")],
    images: Annotated[Path, typer.Argument(metavar="IMAGES", help="The folder its file names are in.")],
    out: Imported,
    val: Fraction = 0.1,
) -> None:
    """Boxes and classes of COCO's detection format."""
    from .data.importers import from_coco

    with asked():
        _show_imported(from_coco(detections, images, out, val))


@import_app.command()
def csv(
    table: Annotated[Path, typer.Argument(metavar="CSV", help="One object a row.")],
    out: Imported,
    id: Annotated[str, typer.Option(help="Column that says to which example an object belongs.")] = "id",
    inputs: Annotated[str, typer.Option(help='Columns of the input, by commas; "" if the objects are it.')] = "image",
    val: Fraction = 0.1,
) -> None:
    """A table with one object a row."""
    from .data.importers import from_csv

    with asked():
        _show_imported(from_csv(table, out, id, [name for name in inputs.split(",") if name], val))


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

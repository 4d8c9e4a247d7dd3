"""The commands of `setpred data`: make, inspect and import."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from .errors import asked

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
    from .inspection import inspect_folder

    inspect_folder(folder, figure, write, typer.echo, lambda text: typer.echo(text, err=True))


Imported = Annotated[Path, typer.Option(help="Folder to write.")]
Share = Annotated[float, typer.Option(help="Share of the examples that go to val.jsonl.")]


@import_app.command()
def coco(
    detections: Annotated[Path, typer.Argument(metavar="JSON", help="Detections in COCO's format.")],
    images: Annotated[Path, typer.Argument(metavar="IMAGES", help="The folder its file names are in.")],
    out: Imported,
    val: Share = 0.1,
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
    val: Share = 0.1,
) -> None:
    """A table with one object a row."""
    from .data.importers import from_csv

    with asked():
        _show_imported(from_csv(table, out, id, [name for name in inputs.split(",") if name], val))


def _show_imported(imported: Any) -> None:
    for note in imported.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{imported.folder}: {imported.train} examples to train on, {imported.val} to validate")

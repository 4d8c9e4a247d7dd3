"""`setpred data inspect`: the schema of a folder, a picture of some examples, and what looks wrong."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from .data.folder import open_folder, read_schema, schema_text
from .data.infer import inspect
from .errors import UsageError, asked
from .files import replacing
from .report.examples import draw_examples

Say = Callable[[str], object]


def inspect_folder(folder: Path, figure: Path, write: bool, show: Say, remark: Say) -> None:
    """Show the schema; remark on sizes, doubts and the picture; what cannot be used is a `UsageError` that lists it."""
    with asked():
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}: give one that holds train.jsonl and val.jsonl")
        inspection = inspect(folder)
        written = folder / "schema.yaml"
        schema = read_schema(written) if written.exists() else inspection.schema
    for name, sizes in inspection.sizes.items():
        remark(f"{name}: {sizes.total():,} examples, {_range(sizes)} objects each")
    for note in inspection.notes:
        remark(f"look: {note}")
    remark(f"schema ({'of schema.yaml' if written.exists() else 'inferred'}):")
    show(schema_text(schema).rstrip())
    if write and written.exists():
        raise UsageError(f"{written} is there already and is never overwritten: move it away to infer another")
    if write:
        with replacing(written) as temporary:
            temporary.write_text(schema_text(schema), encoding="utf-8")
        remark(f"written to {written}: correct it there")
    with asked():
        opened = open_folder(folder, schema=schema)
        draw_examples(opened, figure)
    remark(f"{len(opened.train):,} + {len(opened.val):,} examples can be used; some are drawn in {figure}")


def _range(sizes: Counter[int]) -> str:
    if not sizes:
        return "no"
    low, high = min(sizes), max(sizes)
    return str(low) if low == high else f"{low} to {high}"

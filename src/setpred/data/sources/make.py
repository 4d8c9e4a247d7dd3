"""From an installed package to a data folder, whole or not at all."""

import hashlib
import json
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ...errors import UsageError, unknown
from ..importers.write import whole_folder
from ..jsonl_folder import schema_text
from . import SOURCES


def make_source(name: str, out: Path) -> ModuleType:
    """Write the folder of a source, and return the source."""
    source = find_source(name)
    with whole_folder(out) as folder:
        for split, records in source.make(folder).items():
            lines = (json.dumps(record) + "\n" for record in records)
            (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
        (folder / "schema.yaml").write_text(schema_text(source.SCHEMA), encoding="utf-8")
    return source


def find_source(name: str) -> ModuleType:
    """The module of a source whose package is installed."""
    if name not in SOURCES:
        raise unknown("data", name, SOURCES)
    source = import_module(SOURCES[name][0])
    for package in source.NEEDS:
        try:
            import_module(package)
        except ImportError:
            raise UsageError(
                f"{name} are made from the package {package}, which is missing: pip install 'setpred[examples]'"
            ) from None
    return source


def is_held_out(source: str | bytes, fraction: float) -> bool:
    """Whether what is made from this piece of the source judges, by its hash: the same for all time.

    >>> sum(is_held_out(f"piece {i}", 0.2) for i in range(1000))
    206
    """
    return draw(source) < fraction


def draw(source: str | bytes) -> float:
    """A number in [0, 1) that depends on the text alone."""
    text = source.encode() if isinstance(source, str) else source
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") / 2**64

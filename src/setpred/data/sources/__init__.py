"""Real data from installable packages. Each source becomes a folder to train on, whole or not at all.

A source is a module with `NEEDS`, `ABOUT`, `SCHEMA` and `make`, and its line in the table.
"""

import hashlib
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ...errors import UsageError, unknown

SOURCES = {
    "chords": (
        "setpred.data.sources.chords",
        "Make data: the notes of chords from their spectra (Bach's chorales, from music21).",
    ),
    "digits": ("setpred.data.sources.canvas_digits", "Make data: handwritten digits in pictures (from scikit-learn)."),
    "molecules": (
        "setpred.data.sources.g2_molecules",
        "Make data: the atoms of molecules from a fingerprint (G2, from ASE).",
    ),
}
"""The module of each source, and what it is, in a sentence."""

__all__ = ["SOURCES", "draw", "find_source", "is_held_out", "make_source"]


def make_source(name: str, out: Path, add: Callable[[ModuleType, Path], None] | None = None) -> ModuleType:
    """Write the folder of a source, and return the source; `add` may put more into the folder before it appears."""
    from ..importers.write import whole_folder
    from ..jsonl_folder import schema_text

    source = find_source(name)
    with whole_folder(out) as folder:
        for split, records in source.make(folder).items():
            lines = (json.dumps(record) + "\n" for record in records)
            (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
        (folder / "schema.yaml").write_text(schema_text(source.SCHEMA), encoding="utf-8")
        if add is not None:
            add(source, folder)
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

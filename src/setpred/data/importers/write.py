"""Writes a data folder, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...schema import Schema
from ...values import short
from ..inputs import path_inside
from ..jsonl_folder import schema_text
from ..records import DataError

IMAGES = "images/"


@dataclass(frozen=True)
class Imported:
    """The folder that was written, how many examples each split has, and what is worth knowing."""

    folder: Path
    train: int
    val: int
    notes: list[str]


def image_name(images_dir: Path, name: Any) -> str:
    """What an image of `images_dir` is called in a data folder; one that is missing is refused."""
    path = path_inside(images_dir, name)
    if not path.is_file():
        raise ValueError(f"the image {short(name)} is missing: add the file")
    return IMAGES + path.relative_to(images_dir.resolve()).as_posix()


def write_folder(
    out: Path,
    records: list[dict[str, Any]],
    schema: Schema,
    val: float,
    notes: list[str],
    images_dir: Path | None,
) -> Imported:
    """Writes the examples, a fraction `val` of them for validation, with copies of their images."""
    if not 0 < val < 1:
        raise ValueError(f"val is {val:g}: give the fraction for validation, between 0 and 1")
    if len(records) < 2:
        raise DataError(out, [f"{len(records)} example: two are needed, one to train and one to validate"])
    # By a hash of the id, so that the split does not depend on the order of the rows.
    ranked = sorted(records, key=lambda record: hashlib.sha256(str(record["id"]).encode("utf-8", "replace")).digest())
    held_out = min(max(round(val * len(records)), 1), len(records) - 1)
    chosen = {record["id"] for record in ranked[:held_out]}
    with whole_folder(out) as folder:
        (folder / "schema.yaml").write_text(schema_text(schema), encoding="utf-8")
        for split in ("train", "val"):
            with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
                for record in records:
                    if (record["id"] in chosen) == (split == "val"):
                        file.write(json.dumps(record) + "\n")
        if images_dir is not None:
            for record in records:
                source = path_inside(images_dir, record["image"].removeprefix(IMAGES))
                _copy(source, path_inside(folder, record["image"]))
    return Imported(out, len(records) - held_out, held_out, notes)


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A temporary folder beside `out` that takes its name at the end, or vanishes."""
    folder = None
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise DataError(out, ["is there already and is never overwritten: choose another name"])
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
        yield folder
        folder.chmod(0o755)
        # Fails, rather than replaces, if a folder with files took the name meanwhile.
        os.rename(folder, out)
    except OSError as error:
        raise DataError(out, [f"cannot be written ({error.strerror}): check the place and its space"]) from None
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copyfile(source, target)

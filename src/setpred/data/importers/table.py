"""A CSV table, one object per row, to a data folder."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...schema import Schema
from ...values import finite, short
from ..inputs import numbers
from ..inspection import inspect_objects, known_image_size
from ..records import DataError, Problems
from .write import IMAGES, Imported, image_name, write_folder


def from_csv(
    csv_path: str | Path,
    out: str | Path,
    id: str = "id",
    inputs: Sequence[str] = ("image",),
    val: float = 0.1,
) -> Imported:
    """A CSV table with one object per row to a data folder; a fraction `val` of the examples goes to val.jsonl.

    `id` is the column that says to which example an object belongs, `inputs` the columns of its input,
    equal in all its rows: one column `image` (a path beside the table), or the numbers of a vector. With
    no `inputs` the objects themselves are the input: a set to a set. All other columns are fields;
    columns `at.x`, `at.y` become the one field `at`. A row with no fields filled in is an empty set.
    """
    csv_path = Path(csv_path)
    problems = Problems(csv_path.parent)
    header, rows = _read_csv(csv_path, problems)
    for column in (id, *inputs):
        if column not in header:
            problems.add(csv_path.name, 1, f"no column {short(column)}: it has {', '.join(map(short, header))}")
    columns = [column for column in header if column != id and column not in inputs]
    if not columns:
        problems.add(csv_path.name, 1, f"no columns beside {id!r} and the inputs: objects need fields")
    for column in columns:
        if "." in column and column.partition(".")[0] in columns:
            problems.add(csv_path.name, 1, f"{short(column)} is beside a column of the name before the dot: rename one")
    problems.check()
    parsed = {column: _typed([row[column] for _, row in rows if row[column]]) for column in header}
    examples: dict[str, dict[str, Any]] = {}
    for line, row in rows:
        try:
            if not row[id]:
                raise ValueError(f"{id!r} is empty: say to which example the object belongs")
            given = _csv_input(row, inputs, parsed, csv_path.parent)
            example = examples.setdefault(row[id], {"id": row[id], **given, "objects": []})
            if any(example[key] != value for key, value in given.items()):
                raise ValueError(
                    f"the input of {short(row[id])} differs from the input of its other rows: make them equal"
                )
            if any(row[column] for column in columns):
                example["objects"].append(_csv_object(row, columns, parsed))
        except ValueError as error:
            problems.add(csv_path.name, line, str(error))
    problems.check()
    images_dir = csv_path.parent if tuple(inputs) == ("image",) else None
    sizes = None
    if images_dir is not None:
        names = [example["image"].removeprefix(IMAGES) for example in examples.values()]
        sizes = [known_image_size(images_dir, name) for name in names]
    schema, notes = inspect_objects((example["objects"] for example in examples.values()), sizes)
    if not inputs:
        # Presence would be a constant here: the elements of an input set are there.
        plain = Schema(schema.fields, schema.size, presence=False)
        for example in examples.values():
            example["set"] = plain.encode(example["objects"])[: len(example["objects"])].tolist()
    return write_folder(Path(out), list(examples.values()), schema, val, notes, images_dir)


def _read_csv(path: Path, problems: Problems) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    rows: list[tuple[int, dict[str, str]]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            if len(set(header)) < len(header) or not all(header):
                raise DataError(path, ["the header has empty or equal names: name each column once"])
            for cells in reader:
                if len(cells) == len(header):
                    cells = [cell.strip() for cell in cells]
                    rows.append((reader.line_num, dict(zip(header, cells, strict=True))))
                elif cells:
                    problems.add(path.name, reader.line_num, f"has {len(cells)} cells, the header {len(header)}")
    except OSError as error:
        raise DataError(path, [f"cannot be read ({error.strerror}): check the path"]) from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(path, [f"not a CSV table in UTF-8 ({short(str(error))}): convert it"]) from None
    if not rows and not problems.count:
        raise DataError(path, ["holds no rows: give a header and one object per row"])
    return header, rows


def _typed(cells: Sequence[str]) -> Any:
    """What turns the cells of a column into values: the narrowest of int, float, flag and text that takes all."""
    for kind in (_whole, _number, _flag):
        try:
            for cell in cells:
                kind(cell)
        except ValueError:
            continue
        return kind
    return str


def _whole(cell: str) -> int:
    if not re.fullmatch(r"[+-]?(0|[1-9][0-9]*)", cell.strip()):  # 007 and 1_1 are names
        raise ValueError(f"{short(cell)} is no whole number")
    return int(cell)


def _number(cell: str) -> float:
    if "_" in cell or re.match(r"\s*[+-]?0[0-9]", cell):
        raise ValueError(f"{short(cell)} is no number")
    return float(cell)


def _flag(cell: str) -> bool:
    if cell.lower() not in ("true", "false"):
        raise ValueError(f"{short(cell)} is not a flag")
    return cell.lower() == "true"


def _csv_input(row: dict[str, str], inputs: Sequence[str], parsed: dict[str, Any], root: Path) -> dict[str, Any]:
    if not inputs:
        return {}
    if tuple(inputs) == ("image",):
        return {"image": image_name(root, row["image"])}
    for column in inputs:
        if parsed[column] not in (_whole, _number) or not row[column]:
            raise ValueError(f"the input {short(column)} is {short(row[column])}: give a number in every row")
    return {"vector": numbers({"vector": [parsed[column](row[column]) for column in inputs]}, "vector")[0]}


def _csv_object(row: dict[str, str], columns: Sequence[str], parsed: dict[str, Any]) -> dict[str, Any]:
    item: dict[str, Any] = {}
    for column in columns:
        if not row[column]:
            raise ValueError(f"{short(column)} is empty: fill it in")
        value = parsed[column](row[column])
        if parsed[column] in (_whole, _number):
            finite(value)
        name, dot, _ = column.partition(".")
        if dot:
            item.setdefault(name, []).append(value)
        else:
            item[name] = value
    return item

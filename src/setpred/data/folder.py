"""A folder of one's own data: train.jsonl, val.jsonl and schema.yaml.

Each line is `{"image": "img/1.png", "objects": [{...}, ...]}`, or with `"vector": [...]` or
`"set": [[...], ...]` in place of the image, and an `"id"` if wished. Everything is checked before
anything is used; then lines are read again one at a time, so memory does not grow with the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from torch import Tensor
from torch.utils.data import Dataset

from ..plain_yaml import read_yaml
from ..schema import Schema
from ..schema.values import short
from .infer import inspect
from .inputs import Inputs, check_image, kind_of, path_inside
from .records import DataError, Problems, Record, parse, read_records

SPLITS = ("train", "val")
MAX_SCHEMA = 1 << 17


class FolderDataset(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """One split: `(input, sets [size, dim], mask [size])` an example, read when asked for.

    The input is as `Inputs` says: an image [3, s, s], a vector [k], or a padded set [n, k + 1].
    """

    def __init__(self, path: Path, offsets: np.ndarray, lines: np.ndarray, schema: Schema, inputs: Inputs) -> None:
        self.path = path
        self.schema = schema
        self.inputs = inputs
        self._offsets = offsets
        self._lines = lines

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"example {index} of {len(self)} in {self.path.name}")
        try:
            content = self.record(index)
            objects: Any = content.get("objects")
            sets, mask = self.schema.encode_batch([objects])
            return self.inputs.read(content, self.path.parent), sets[0], mask[0]
        except (ValueError, OSError) as error:
            raise DataError(self.path.parent, [f"{self.path.name} line {self.line(index)}: {error}"]) from None

    def line(self, index: int) -> int:
        """The number of its line in the file."""
        return int(self._lines[index])

    def record(self, index: int) -> dict[str, Any]:
        """The line itself, parsed."""
        with self.path.open("rb") as file:
            file.seek(int(self._offsets[index]))
            return parse(file.readline())


@dataclass(frozen=True)
class Folder:
    """A checked data folder: its schema, what its inputs are, and its two splits."""

    root: Path
    schema: Schema
    inputs: Inputs
    train: FolderDataset
    val: FolderDataset


def open_folder(root: str | Path, image_size: int | None = None, schema: Schema | None = None) -> Folder:
    """Reads a data folder and checks every line; raises one `DataError` with all that is wrong.

    Args:
        root: the folder.
        image_size: pixels a side; 64 or 128 as the images suggest unless given.
        schema: what objects are checked against; unless given that of schema.yaml, or inferred where there is none.
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError(root, ["no such folder: give one that holds train.jsonl and val.jsonl"])
    if schema is None:
        schema = read_schema(root / "schema.yaml") if (root / "schema.yaml").exists() else inspect(root).schema
    problems = Problems(root)
    scan = _Scan(root, schema, problems)
    found = {}
    for split in SPLITS:
        path = root / f"{split}.jsonl"
        kept = [(record.offset, record.line) for record in read_records(path, problems) if scan.check(record)]
        places = np.array(kept, dtype=np.int64).reshape(-1, 2)
        found[split] = path, places[:, 0], places[:, 1]
    if scan.inputs is not None and scan.inputs.kind != "image" and scan.inputs.dim == 0:
        problems.add("train.jsonl", None, "every input set is empty: give them elements")
    problems.check()
    assert scan.inputs is not None, "a split without lines is a problem"
    inputs = scan.inputs
    if inputs.kind == "image":
        inputs = replace(inputs, size=image_size or usual_image_size(inputs.size))
    train, val = (FolderDataset(*found[split], schema, inputs) for split in SPLITS)
    return Folder(root, schema, inputs, train, val)


def usual_image_size(largest: int) -> int:
    """Pixels a side to which images are resized, of which the largest has `largest`."""
    return 64 if largest <= 96 else 128


def read_schema(path: str | Path) -> Schema:
    """The schema of a YAML file."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            text = file.read(MAX_SCHEMA + 1)
    except OSError as error:
        raise DataError(path, [f"cannot be read ({error.strerror}): check the path"]) from None
    if len(text) > MAX_SCHEMA:
        raise DataError(path, [f"larger than {MAX_SCHEMA >> 10} kB: a schema is a few lines"])
    try:
        return Schema.from_dict(read_yaml(text))
    except ValueError as error:
        raise DataError(path, [str(error)]) from None


def schema_text(schema: Schema) -> str:
    """The schema as YAML, in the order of its fields."""
    return yaml.safe_dump(schema.to_dict(), sort_keys=False, default_flow_style=None, allow_unicode=True)


class _Scan:
    """Checks lines one after the other, remembering what later lines must agree with."""

    def __init__(self, root: Path, schema: Schema, problems: Problems) -> None:
        self.root = root
        self.schema = schema
        self.problems = problems
        self.inputs: Inputs | None = None
        self.ids: dict[str | int, str] = {}

    def check(self, record: Record) -> bool:
        """Whether the line can be used; all that is wrong with it goes to the problems."""
        before = self.problems.count
        try:
            self._check_input(record.content)
        except ValueError as error:
            self.problems.add(record.file, record.line, str(error))
        self._check_id(record)
        if "objects" not in record.content:
            self.problems.add(record.file, record.line, "no objects: add the list, [] for an empty set")
        else:
            for text in self._object_problems(record.content["objects"]):
                self.problems.add(record.file, record.line, text)
        return self.problems.count == before

    def _object_problems(self, objects: Any) -> list[str]:
        problems, size = self.schema.problems(objects), self.schema.size
        if not problems and not self.schema.presence and len(objects) < size:
            return [f"has {len(objects)} objects, without presence every set has {size}: set presence to true"]
        return problems

    def _check_input(self, content: dict[str, Any]) -> None:
        if self.inputs is not None:
            self.inputs.expect(kind_of(content))
        if kind_of(content) == "image":
            seen = Inputs("image", 3, check_image(path_inside(self.root, content["image"])))
        else:
            seen = Inputs.of(content)
        if self.inputs is None or self.inputs.dim == 0:
            self.inputs = seen
        else:
            # The largest is known only at the end of the data.
            self.inputs = replace(self.inputs, size=max(self.inputs.size, seen.size))
            if seen.size and seen.dim != self.inputs.dim:
                raise ValueError(
                    f"the {seen.kind} has {seen.dim} numbers, others have {self.inputs.dim}: use one length"
                )

    def _check_id(self, record: Record) -> None:
        if "id" not in record.content:
            return
        name = record.content["id"]
        if not isinstance(name, str | int):
            self.problems.add(record.file, record.line, f"the id is {short(name)}: use text or a whole number")
        elif name in self.ids:
            self.problems.add(record.file, record.line, f"the id {short(name)} is also at {self.ids[name]}: rename it")
        else:
            self.ids[name] = f"{record.file} line {record.line}"

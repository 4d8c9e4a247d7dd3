"""A folder of one's own data: train.jsonl, val.jsonl and schema.yaml.

Each line is `{"image": "img/1.png", "objects": [{...}, ...]}`, or with `"vector": [...]` or
`"set": [[...], ...]` in place of the image, and an `"id"` if wished. Everything is checked before
anything is used; then lines are read again one at a time, so memory does not grow with the data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from rich.console import Console
from rich.progress import track
from torch import Tensor
from torch.utils.data import Dataset

from ..letterbox import Size, pixel_on, shared_canvas
from ..schema import Schema
from ..values import read_yaml, short
from .inputs import Inputs, image_path, image_size, in_threads, kind_of, path_inside
from .inspection import inspect, is_inside
from .records import DataError, Problems, Record, parse, read_records

SPLITS = ("train", "val")
MAX_SCHEMA = 1 << 17


class FolderDataset(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """One split: `(input, sets [size, dim], mask [size])` an example, read when asked for.

    The input is as `Inputs` says: an image [3, height, width], a vector [k], or a padded set [n, k + 1].
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
        return self.read(index)[:3]

    def read(self, index: int) -> tuple[Tensor, Tensor, Tensor, Size]:
        """An example, and the width and height of its image (1 and 1 where it is none)."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"example {index} of {len(self)} in {self.path.name}")
        try:
            content, size = self.record(index), (1, 1)
            objects: Any = content.get("objects")
            if self.inputs.kind == "image":
                self.inputs.expect(kind_of(content))
                made, size = self.inputs.read_image(image_path(content, self.path.parent))
            else:
                made = self.inputs.read(content)
            sets, mask = self.schema.in_pixels(pixel_on(self.inputs.canvas, size)).encode_batch([objects])
            return made, sets[0], mask[0], size
        except (ValueError, OSError) as error:
            raise DataError(self.path.parent, [f"{self.path.name} line {self.line(index)}: {error}"]) from None

    def reading(self, inputs: Inputs) -> FolderDataset:
        """The same examples with their inputs read in another way."""
        return FolderDataset(self.path, self._offsets, self._lines, self.schema, inputs)

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

    def reading(self, inputs: Inputs) -> Folder:
        """The folder with its inputs read in another way, such as images on the canvas of a run."""
        return replace(self, inputs=inputs, train=self.train.reading(inputs), val=self.val.reading(inputs))


def open_folder(root: str | Path, image_size: int | None = None, schema: Schema | None = None) -> Folder:
    """Reads a data folder and checks every line; raises one `DataError` with all that is wrong.

    Args:
        root: the folder.
        image_size: pixels of the longer side of the canvas that images are put on; 64 or 128 as they suggest unless
            given. The other side is the shortest on which all of them fit.
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
        width, height = shared_canvas(image_size or usual_image_size(inputs.size), scan.shapes)
        inputs = replace(inputs, size=width, height=height)
    train, val = (FolderDataset(*found[split], schema, inputs) for split in SPLITS)
    return Folder(root, schema, inputs, train, val)


def usual_image_size(largest: int) -> int:
    """The longer side to which images are scaled, where that of the largest has `largest` pixels."""
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
        self.shapes: list[Size] = []  # the widest and the tallest of the images
        self.ids: dict[str | int, str] = {}

    def check(self, record: Record) -> bool:
        """Whether the line can be used; all that is wrong with it goes to the problems."""
        before, size = self.problems.count, None
        try:
            size = self._check_input(record.content)
        except ValueError as error:
            self.problems.add(record.file, record.line, str(error))
        self._check_id(record)
        if "objects" not in record.content:
            self.problems.add(record.file, record.line, "no objects: add the list, [] for an empty set")
        else:
            for text in self._object_problems(record.content["objects"], size):
                self.problems.add(record.file, record.line, text)
        return self.problems.count == before

    def _object_problems(self, objects: Any, image: Size | None) -> list[str]:
        schema, size = self.schema, self.schema.size
        if schema.pixel_fields:
            if image is None:  # which is a problem by itself
                return []
            if outside := list(places_outside(schema.pixel_fields, objects, image)):
                return outside
            schema = schema.in_pixels(1 / max(image))
        problems = schema.problems(objects)
        if not problems and not schema.presence and len(objects) < size:
            return [f"has {len(objects)} objects, without presence every set has {size}: set presence to true"]
        return problems

    def _check_input(self, content: dict[str, Any]) -> Size | None:
        """Check that the input is like the others, and return the size of an image."""
        image = None
        if self.inputs is not None:
            self.inputs.expect(kind_of(content))
        if kind_of(content) == "image":
            image = image_size(path_inside(self.root, content["image"]))
            seen = Inputs("image", 3, max(image))
            shapes = [*self.shapes, image]
            self.shapes = [max(shapes, key=lambda s: s[0] / s[1]), max(shapes, key=lambda s: s[1] / s[0])]
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
        return image

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


def places_outside(names: Sequence[str], objects: Any, image: Size) -> Iterator[str]:
    """What to tell of places in pixels that are not in their image; values that are no such places are passed over."""
    for i, item in enumerate(objects if isinstance(objects, list) else []):
        for name in names if isinstance(item, dict) else ():
            if is_inside(item.get(name), image) is False:
                width, height = image
                yield (
                    f"object {i}, field {short(name)}: {short(item[name])} is not in the image of {width}×{height} "
                    "pixels: correct it, or leave pixels out of the schema"
                )


@torch.inference_mode(False)  # Lightning asks for test data inside it, and other threads may not write to what it makes
def read_tensors(dataset: FolderDataset, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first `count` examples: inputs (images in bytes), sets `[count, size, dim]`, masks `[count, size]`, and of
    images their widths and heights `[count, 2]`."""
    schema, images = dataset.schema, dataset.inputs.kind == "image"
    inputs = _on_disk((count, *dataset.inputs.shape)) if images else torch.empty(count, *dataset.inputs.shape)
    sets, masks = torch.empty(count, schema.size, schema.dim), torch.empty(count, schema.size, dtype=torch.bool)
    sizes = torch.empty(count, 2, dtype=torch.long)
    problems = Problems(dataset.path.parent)

    def read(index: int) -> DataError | None:
        try:
            made, sets[index], masks[index], size = dataset.read(index)
        except DataError as error:
            return error
        sizes[index] = torch.tensor(size)
        inputs[index] = (255 * made).round().byte() if images else made
        return None

    done = in_threads(read, range(count)) if images else map(read, range(count))
    screen, few = Console(stderr=True), count < 1_000
    for error in track(done, f"reading {dataset.path.name}", count, console=screen, transient=True, disable=few):
        if error is not None:
            problems.take(error)
    problems.check()
    return inputs, sets, masks, sizes


def _on_disk(shape: tuple[int, ...]) -> Tensor:
    """Bytes in a file without a name, which memory holds as far as there is room."""
    with tempfile.TemporaryFile() as file:
        return torch.from_numpy(np.memmap(file, np.uint8, "w+", shape=shape))

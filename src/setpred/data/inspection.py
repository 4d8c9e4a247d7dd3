"""The schema of data that came without one, and what looks wrong in it.

The majority decides: a field is inferred from what most objects say, and the few that disagree are
reported as problems when the data are checked against the schema.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

from ..letterbox import Size
from ..schema import Angle, Category, Count, Field, Flag, Real, Schema
from ..schema.fields import MAX_DIM
from ..schema.layout import RESERVED
from ..values import short
from .inputs import KINDS, image_size, path_inside
from .records import DataError, Problems, read_records
from .statistics import MAX_VALUES, FieldStatistics, Moments, numbers_of

ANGLE_NAMES = {"angle", "heading", "rotation", "orientation", "yaw", "theta"}
CLASS_NAMES = {"class", "label", "category", "type", "kind", "digit"}
FEW = 5
FRACTION = 2.0
"""Places are in pixels if some number is larger: a fraction of an image is at most 1."""
SLACK = 1e-3
"""So many pixels may a box exceed its image by rounding."""
# Below this many values a difference between the splits is not worth a word.
ENOUGH = 20


@dataclass(frozen=True)
class Inspection:
    """A schema, how many sets of each size there are in each split, and what looks wrong in one line each."""

    schema: Schema
    sizes: dict[str, Counter[int]]
    notes: list[str]


@dataclass
class _Split:
    """What is counted over the examples of one split."""

    sizes: Counter[int] = field(default_factory=Counter)
    fields: dict[str, FieldStatistics] = field(default_factory=dict)
    inputs: set[int] = field(default_factory=set)

    def add(self, objects: Iterable[Mapping[str, Any]], size: int, image: Size | None = None) -> None:
        self.sizes[size] += 1
        for item in objects:
            for name, value in item.items():
                seen = self.fields.setdefault(name, FieldStatistics())
                seen.add(value)
                seen.inside += image is not None and is_inside(value, image) is True

    @property
    def objects(self) -> int:
        return sum(size * times for size, times in self.sizes.items())


def inspect(root: str | Path) -> Inspection:
    """Infers the schema of a data folder from train.jsonl and val.jsonl, and reports what looks wrong.

    Lines that cannot be read are passed over: `open_folder` lists them all.
    """
    root = Path(root)
    problems = Problems(root)
    splits: dict[str, _Split] = {}
    for name in ("train", "val"):
        split = splits[name] = _Split()
        for record in read_records(root / f"{name}.jsonl", problems):
            objects = record.content.get("objects")
            if not isinstance(objects, list) or not all(isinstance(item, dict) for item in objects):
                problems.add(record.file, record.line, f"objects is {short(objects)}: give a list of objects")
            else:
                split.add(objects, len(objects), known_image_size(root, record.content.get("image")))
                split.inputs.add(hash(json.dumps([record.content.get(kind) for kind in KINDS])))
    if not any(split.objects for split in splits.values()):
        problems.check()
    return _conclude(root, splits)


def inspect_objects(
    examples: Iterable[list[dict[str, Any]]], images: Iterable[Size | None] | None = None
) -> tuple[Schema, list[str]]:
    """The schema of lists of objects, and what looks wrong; `images` are the sizes of the images they are in.

    >>> schema, notes = inspect_objects([[{"kind": "cat", "age": 3}], [{"kind": "dog", "age": 1}] * 9])
    >>> schema.fields
    {'kind': Category(names=('cat', 'dog'), weight=1.0), 'age': Count(max=3, weight=1.0)}
    >>> notes
    ["'kind' has few objects for some values ('cat' 1)"]
    """
    split = _Split()
    for objects, image in zip(examples, images or repeat(None), strict=False):
        split.add(objects, len(objects), image)
    inspection = _conclude("objects", {"train": split})
    return inspection.schema, inspection.notes


def _conclude(where: object, splits: dict[str, _Split]) -> Inspection:
    sizes = sum((split.sizes for split in splits.values()), Counter[int]())
    total = sum(split.objects for split in splits.values())
    if not total:
        raise DataError(where, ["every set is empty: a schema needs objects"])
    notes: list[str] = []
    fields: dict[str, Field] = {}
    names = dict.fromkeys(name for split in splits.values() for name in split.fields)
    for name in names:
        seen = [split.fields.get(name, FieldStatistics()) for split in splits.values()]
        both = FieldStatistics.merge(seen)
        if both.count < total / 2:
            notes.append(f"{short(name)} is in only {both.count} of {total} objects: left out of the schema")
            continue
        if both.count < total:
            notes.append(f"{short(name)} is missing in {total - both.count} of {total} objects")
        inferred = None if name in RESERVED else _field(name, both)
        if inferred is None:
            notes.append(f"{short(name)} is {_reason(name, both)}: left out of the schema")
            continue
        fields[name] = inferred
        notes += [f"{short(name)} {warning}" for warning in field_warnings(inferred, both)]
        if len(seen) == 2:
            notes += [f"{short(name)} {warning}" for warning in split_warnings(inferred, *seen)]
    if not fields:
        raise DataError(where, ["no field can be used: objects need numbers, names or flags", *notes])
    if sizes[0]:
        notes.append(f"{sizes[0]} of {sizes.total()} sets are empty")
    if len(splits) == 2:
        train, val = (_moments(split.sizes) for split in splits.values())
        if _differ(train, val):
            notes.append(f"set sizes differ between train (mean {train.mean:.3g}) and val ({val.mean:.3g})")
        one, other = (split.inputs for split in splits.values())
        if shared := len(one & other):
            notes.append(f"{shared} inputs of val are also in train: val then judges what was learned by heart")
    schema = Schema(fields, size=max(sizes), presence=len(sizes) > 1)
    return Inspection(schema, {key: split.sizes for key, split in splits.items()}, notes)


def is_inside(value: Any, image: Size) -> bool | None:
    """Whether a point, or a box by its middle, width and height, lies in an image; None if the value is neither.

    >>> is_inside([320, 240], (640, 480)), is_inside([0, 0, 640, 480], (640, 480)), is_inside("left", (640, 480))
    (True, False, None)
    """
    numbers = numbers_of(value)
    if numbers is None or len(numbers) not in (2, 4):
        return None
    halves = [number / 2 for number in numbers[2:]] or [0.0, 0.0]
    sides = zip(numbers, halves, image, strict=False)
    return all(half >= 0 and at - half >= -SLACK and at + half <= side + SLACK for at, half, side in sides)


def known_image_size(root: Path, name: Any) -> Size | None:
    """The size of the image of that name, if there is one that can be read."""
    try:
        return image_size(path_inside(root, name)) if isinstance(name, str) else None
    except ValueError:  # which is told of when the data are checked
        return None


def _field(name: str, seen: FieldStatistics) -> Field | None:
    """The kind of field that most values ask for; None if there is none."""
    if seen.kind == "flag":
        return Flag()
    if seen.kind == "text":
        names = seen.named(str)
        free = len(names) > MAX_VALUES or (len(names) > 50 and len(names) > seen.count / 2)
        return None if free else Category(*sorted(names))
    if seen.kind != "numbers" or seen.length > MAX_DIM:
        return None
    low, high = seen.low, seen.high
    if seen.length == 1:
        words = _words(name)
        if words & ANGLE_NAMES and low >= -360 and high <= 360:
            return Angle(360.0 if max(-low, high) > math.tau + 1e-6 else math.tau)
        whole = not seen.floats
        classes = seen.named(int)
        if whole and words & CLASS_NAMES and len(classes) <= MAX_VALUES:
            return Category(*sorted(classes))
        if whole and low >= 0 and 1 <= high <= 1000:
            return Count(int(high))
    if seen.length in (2, 4) and seen.inside == seen.kinds["numbers", seen.length] and high > FRACTION:
        return Real(seen.length, pixels=True)
    if high / 2 - low / 2 < 1e-25:
        return Real(seen.length, scale=max(1.0, abs(low)))
    return Real(seen.length, range=_widened(low, high))


def _words(name: str) -> set[str]:
    """The words of a field's name, and what they are without an s at the end.

    >>> sorted(_words("rectangle_width")), "angle" in _words("wheelAngles"), "class" in _words("CLASS-id2")
    (['rectangle', 'width'], True, True)
    """
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    return {*words, *(word.removesuffix("s") for word in words)}


def _widened(low: float, high: float) -> tuple[float, float]:
    """A range with a tenth of room for data not seen, in round numbers, on the same side of zero."""
    margin = (high / 2 - low / 2) / 5
    digits = -math.floor(math.log10(margin))
    wide_low, wide_high = round(low - margin, digits), round(high + margin, digits)
    if low >= 0:
        wide_low = max(wide_low, 0.0)
    if high <= 0:
        wide_high = min(wide_high, 0.0)
    if not math.isfinite(wide_low) or not math.isfinite(wide_high):
        return low, high
    return min(wide_low, low) + 0.0, max(wide_high, high) + 0.0  # never a negative zero


def _reason(name: str, seen: FieldStatistics) -> str:
    if name in RESERVED:
        return "a reserved name"
    if seen.kind == "text":
        return f"free text ({len(seen.values)} different values)"
    return "not a number, a list of numbers, a name or a flag"


def _moments(sizes: Counter[int]) -> Moments:
    moments = Moments()
    for size in sizes.elements():
        moments.add(size)
    return moments


def field_warnings(field: Field, seen: FieldStatistics) -> Iterator[str]:
    """What looks wrong with the values of one field, each a sentence that follows its name.

    >>> seen = FieldStatistics()
    >>> seen.add("cat")
    >>> list(field_warnings(Category("cat"), seen))
    ["has the one value 'cat': it says nothing", "has few objects for some values ('cat' 1)"]
    """
    odd = seen.count - seen.kinds.most_common(1)[0][1]
    if odd:
        yield f"has {odd} of {seen.count} values of another type or length: they will be refused"
    if isinstance(field, Angle):
        yield f"is taken for an angle of period {field.period:g}: correct it in schema.yaml if it is not"
    if isinstance(field, Category):
        counts = seen.named(type(field.names[0]))
        if len(field.names) == 1:
            yield f"has the one value {field.names[0]!r}: it says nothing"
        rare = [f"{name!r} {times}" for name, times in counts.most_common()[::-1] if times < FEW]
        if rare:
            more = f" and {len(rare) - 5} more" if len(rare) > 5 else ""
            yield f"has few objects for some values ({', '.join(rare[:5])}{more})"
    if isinstance(field, Real | Count | Flag):
        yield from _number_warnings(field, seen)


def _number_warnings(field: Real | Count | Flag, seen: FieldStatistics) -> Iterator[str]:
    widths = [moments.high - moments.low for moments in seen.moments]
    for i, moments in enumerate(seen.moments):
        if widths[i] == 0:
            place = f" (number {i})" if field.dim > 1 else ""
            yield f"is always {moments.low:g}{place}: it says nothing"
    varied = [width for width in widths if width > 0]
    if varied and max(varied) > 20 * min(varied):
        yield "holds numbers of very different ranges: split it into several fields"
    if isinstance(field, Real) and seen.floats and not seen.fractions and varied:
        yield "holds only whole numbers: if it is a count or a class, say so in schema.yaml"


def split_warnings(field: Field, train: FieldStatistics, val: FieldStatistics) -> Iterator[str]:
    """How the values of one field differ between the splits, each a sentence that follows its name."""
    if isinstance(field, Category):
        kind = type(field.names[0])
        ours, theirs = train.named(kind), val.named(kind)
        unseen = [repr(name) for name in theirs if name not in ours]
        if unseen:
            yield f"has values in val that train never shows ({', '.join(unseen[:5])})"
        fewer = min(ours.total(), theirs.total())
        if fewer >= ENOUGH:
            moved = sum(abs(ours[n] / ours.total() - theirs[n] / theirs.total()) for n in field.names) / 2
            # Two samples of the same classes differ by about this much.
            if moved > 0.1 + math.sqrt(len(field.names) / fewer):
                yield f"is distributed differently in train and val ({moved:.0%} of the objects would have to change)"
    elif len(train.moments) == len(val.moments):
        for i, (a, b) in enumerate(zip(train.moments, val.moments, strict=True)):
            if _differ(a, b):
                place = f" (number {i})" if field.dim > 1 else ""
                yield f"differs between train (mean {a.mean:.3g}) and val ({b.mean:.3g}){place}"


def _differ(a: Moments, b: Moments) -> bool:
    """Whether two means are further apart than half the spread."""
    return min(a.count, b.count) >= ENOUGH and abs(a.mean - b.mean) > 0.5 * max(a.std, b.std)

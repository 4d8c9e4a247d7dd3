"""The schema of data that came without one, and what looks wrong in it.

The majority decides: a field is inferred from what most objects say, and the few that disagree are
reported as problems when the data are checked against the schema.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..schema import Angle, Category, Count, Field, Flag, Real, Schema
from ..schema.element import RESERVED
from ..schema.field import MAX_DIM
from ..schema.values import short
from .doubts import apart, differences, doubts
from .inputs import KINDS
from .records import DataError, Problems, read_records
from .tally import MAX_VALUES, Moments, Tally

ANGLE_NAMES = ("angle", "heading", "rotation", "orientation", "yaw", "theta")
CLASS_NAMES = ("class", "label", "category", "type", "kind")


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
    tallies: dict[str, Tally] = field(default_factory=dict)
    inputs: set[int] = field(default_factory=set)

    def add(self, objects: Iterable[Mapping[str, Any]], size: int) -> None:
        self.sizes[size] += 1
        for item in objects:
            for name, value in item.items():
                self.tallies.setdefault(name, Tally()).add(value)

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
                split.add(objects, len(objects))
                split.inputs.add(hash(json.dumps([record.content.get(kind) for kind in KINDS])))
    if not any(split.objects for split in splits.values()):
        problems.check()
    return _conclude(root, splits)


def inspect_objects(examples: Iterable[list[dict[str, Any]]]) -> tuple[Schema, list[str]]:
    """The schema of lists of objects, and what looks wrong.

    >>> schema, notes = inspect_objects([[{"kind": "cat", "age": 3}], [{"kind": "dog", "age": 1}] * 9])
    >>> schema.fields
    {'kind': Category(names=('cat', 'dog'), share=1.0), 'age': Count(max=3, share=1.0)}
    >>> notes
    ["'kind' has few objects for some values ('cat' 1)"]
    """
    split = _Split()
    for objects in examples:
        split.add(objects, len(objects))
    inspection = _conclude("objects", {"train": split})
    return inspection.schema, inspection.notes


def _conclude(where: object, splits: dict[str, _Split]) -> Inspection:
    sizes = sum((split.sizes for split in splits.values()), Counter[int]())
    total = sum(split.objects for split in splits.values())
    if not total:
        raise DataError(where, ["every set is empty: a schema needs objects"])
    notes: list[str] = []
    fields: dict[str, Field] = {}
    names = dict.fromkeys(name for split in splits.values() for name in split.tallies)
    for name in names:
        tallies = {key: split.tallies.get(name, Tally()) for key, split in splits.items()}
        both = Tally.merge(tallies.values())
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
        notes += [f"{short(name)} {doubt}" for doubt in doubts(inferred, both)]
        if len(tallies) == 2:
            notes += [f"{short(name)} {difference}" for difference in differences(inferred, *tallies.values())]
    if not fields:
        raise DataError(where, ["no field can be used: objects need numbers, names or flags", *notes])
    if sizes[0]:
        notes.append(f"{sizes[0]} of {sizes.total()} sets are empty")
    if len(splits) == 2:
        train, val = (_moments(split.sizes) for split in splits.values())
        if apart(train, val):
            notes.append(f"set sizes differ between train (mean {train.mean:.3g}) and val ({val.mean:.3g})")
        one, other = (split.inputs for split in splits.values())
        if shared := len(one & other):
            notes.append(f"{shared} inputs of val are also in train: val then judges what was learned by heart")
    schema = Schema(fields, size=max(sizes), presence=len(sizes) > 1)
    return Inspection(schema, {key: split.sizes for key, split in splits.items()}, notes)


def _field(name: str, tally: Tally) -> Field | None:
    """The kind of field that most values ask for; None if there is none."""
    if tally.kind == "flag":
        return Flag()
    if tally.kind == "text":
        names = tally.named(str)
        free = len(names) > MAX_VALUES or (len(names) > 50 and len(names) > tally.count / 2)
        return None if free else Category(*sorted(names))
    if tally.kind != "numbers" or tally.length > MAX_DIM:
        return None
    low, high = tally.low, tally.high
    if tally.length == 1:
        named = name.lower()
        if any(word in named for word in ANGLE_NAMES) and low >= -360 and high <= 360:
            return Angle(360.0 if max(-low, high) > math.tau + 1e-6 else math.tau)
        whole = not tally.floats
        classes = tally.named(int)
        if whole and any(word in named for word in CLASS_NAMES) and len(classes) <= MAX_VALUES:
            return Category(*sorted(classes))
        if whole and low >= 0 and 1 <= high <= 1000:
            return Count(int(high))
    if high / 2 - low / 2 < 1e-25:
        return Real(tally.length, scale=max(1.0, abs(low)))
    return Real(tally.length, range=_widened(low, high))


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


def _reason(name: str, tally: Tally) -> str:
    if name in RESERVED:
        return "a reserved name"
    if tally.kind == "text":
        return f"free text ({len(tally.values)} different values)"
    return "not a number, a list of numbers, a name or a flag"


def _moments(sizes: Counter[int]) -> Moments:
    moments = Moments()
    for size in sizes.elements():
        moments.add(size)
    return moments

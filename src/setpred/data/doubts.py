"""What looks wrong in data that can be read: fields that say nothing, rare classes, splits that differ."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..schema import Angle, Category, Count, Field, Flag, Real
from .tally import Moments, Tally

FEW = 5
# Below this many values a difference between the splits is not worth a word.
ENOUGH = 20


def doubts(field: Field, tally: Tally) -> Iterator[str]:
    """What looks wrong with the values of one field, each a sentence that follows its name.

    >>> tally = Tally()
    >>> tally.add("cat")
    >>> list(doubts(Category("cat"), tally))
    ["has the one value 'cat': it says nothing", "has few objects for some values ('cat' 1)"]
    """
    odd = tally.count - tally.kinds.most_common(1)[0][1]
    if odd:
        yield f"has {odd} of {tally.count} values of another type or length: they will be refused"
    if isinstance(field, Angle):
        yield f"is taken for an angle of period {field.period:g}: correct it in schema.yaml if it is not"
    if isinstance(field, Category):
        counts = tally.named(type(field.names[0]))
        if len(field.names) == 1:
            yield f"has the one value {field.names[0]!r}: it says nothing"
        rare = [f"{name!r} {times}" for name, times in counts.most_common()[::-1] if times < FEW]
        if rare:
            more = f" and {len(rare) - 5} more" if len(rare) > 5 else ""
            yield f"has few objects for some values ({', '.join(rare[:5])}{more})"
    if isinstance(field, Real | Count | Flag):
        yield from _number_doubts(field, tally)


def _number_doubts(field: Real | Count | Flag, tally: Tally) -> Iterator[str]:
    widths = [moments.high - moments.low for moments in tally.moments]
    for i, moments in enumerate(tally.moments):
        if widths[i] == 0:
            place = f" (number {i})" if field.dim > 1 else ""
            yield f"is always {moments.low:g}{place}: it says nothing"
    varied = [width for width in widths if width > 0]
    if varied and max(varied) > 20 * min(varied):
        yield "holds numbers of very different ranges: split it into several fields"
    if isinstance(field, Real) and tally.floats and not tally.fractions and varied:
        yield "holds only whole numbers: if it is a count or a class, say so in schema.yaml"


def differences(field: Field, train: Tally, val: Tally) -> Iterator[str]:
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
            if apart(a, b):
                place = f" (number {i})" if field.dim > 1 else ""
                yield f"differs between train (mean {a.mean:.3g}) and val ({b.mean:.3g}){place}"


def apart(a: Moments, b: Moments) -> bool:
    """Whether two means are further apart than half the spread."""
    return min(a.count, b.count) >= ENOUGH and abs(a.mean - b.mean) > 0.5 * max(a.std, b.std)

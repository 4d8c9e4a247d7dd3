"""Pictures of one to five handwritten digits, each with its class and its place."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...schema import Category, Real, Schema
from . import is_held_out

NEEDS = ("sklearn", "PIL")
SIDE = 64
MOST = 5
SCHEMA = Schema({"at": Real(2, pixels=True), "digit": Category(*range(10))}, size=MOST)
ABOUT = """\
Pictures of 64 × 64 pixels with one to five handwritten digits, scaled to between 12 and 20 pixels, which overlap by
at most a fifth of their sides. The objects are the digits: where the middle of each is, in pixels, and which it is.

A good answer finds every digit with the right class, and its place within a tenth of half the picture (3.2 pixels):
`accuracy` is the fraction of pictures of which that is true.

No digit that judges was trained on: a hash of its pixels says to which file the pictures with it belong.

The digits are the 1,797 of scikit-learn, from the test set of Optical Recognition of Handwritten Digits (E. Alpaydin
and C. Kaynak, 1998, UCI Machine Learning Repository, CC BY 4.0).
"""
SMALLEST, LARGEST = 12, 20
"""Pixels a side of a digit."""
COUNTS = {"train": 2_000, "val": 400}
JUDGING = 0.28


def make(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Write the pictures; the lines of train.jsonl and val.jsonl."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits, rng = load_digits(), random.Random(0)
    ink = [(image * 255 / 16).astype(np.uint8) for image in digits.images]
    judging = [is_held_out(image.tobytes(), JUDGING) for image in ink]
    (folder / "img").mkdir()
    splits: dict[str, list[dict[str, Any]]] = {}
    for split, count in COUNTS.items():
        usable = [i for i, held_out in enumerate(judging) if held_out == (split == "val")]
        splits[split] = []
        for number in range(count):
            picture, objects = Image.new("L", (SIDE, SIDE)), []
            for x, y, side in places(rng):
                which = rng.choice(usable)
                picture.paste(255, (x, y), mask=Image.fromarray(ink[which]).resize((side, side)))
                objects.append({"at": [x + side / 2, y + side / 2], "digit": int(digits.target[which])})
            name = f"img/{split}-{number}.png"
            picture.save(folder / name)
            splits[split].append({"image": name, "objects": objects})
    return splits


def places(rng: random.Random) -> Iterator[tuple[int, int, int]]:
    """Left, top and side of one to five squares that overlap by at most a fifth of their sides."""
    taken: list[tuple[int, int, int]] = []
    count = rng.randint(1, MOST)
    while len(taken) < count:
        side = rng.randint(SMALLEST, LARGEST)
        x, y = rng.randint(0, SIDE - side), rng.randint(0, SIDE - side)
        apart = (max(abs(x + side / 2 - a - s / 2), abs(y + side / 2 - b - s / 2)) / (side + s) for a, b, s in taken)
        if all(gap >= 0.4 for gap in apart):
            taken.append((x, y, side))
            yield x, y, side

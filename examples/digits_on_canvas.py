"""Pictures of one to five handwritten digits, each with its class and its place, as a folder to train on.

    python examples/digits_on_canvas.py make digits                             2,000 pictures to learn from, 400 others
    setpred train digits --out run
    setpred predict run digits/val.jsonl > found.jsonl
    python examples/digits_on_canvas.py judge digits/val.jsonl found.jsonl

Needs scikit-learn, which brings the 1,797 images of 8 × 8 pixels. No digit is in both train and val.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits

SIDE = 64
SMALLEST, LARGEST = 12, 20  # pixels a side of a digit
TRAINING = 1_300  # digits that pictures to learn from are made of
WITHIN = 3.0  # pixels between the place of a digit and where it is found


def make(folder: Path, train: int = 2_000, val: int = 400, seed: int = 0) -> None:
    """Write the pictures, and what is in them."""
    digits, rng = load_digits(), random.Random(seed)
    numbers = {"train": range(TRAINING), "val": range(TRAINING, len(digits.target))}
    (folder / "img").mkdir(parents=True)
    for split, count in (("train", train), ("val", val)):
        with (folder / f"{split}.jsonl").open("w") as file:
            for i in range(count):
                picture, objects = Image.new("L", (SIDE, SIDE)), []
                for x, y, side in places(rng):
                    number = rng.choice(numbers[split])
                    ink = Image.fromarray((digits.images[number] * 255 / 16).astype(np.uint8)).resize((side, side))
                    picture.paste(255, (x, y), mask=ink)
                    objects.append({"at": [x + side / 2, y + side / 2], "digit": int(digits.target[number])})
                picture.save(folder / f"img/{split}-{i}.png")
                file.write(json.dumps({"image": f"img/{split}-{i}.png", "objects": objects}) + "\n")


def places(rng: random.Random) -> Iterator[tuple[int, int, int]]:
    """Left, top and side of one to five squares that overlap by at most a fifth of their sides."""
    taken: list[tuple[int, int, int]] = []
    count = rng.randint(1, 5)
    while len(taken) < count:
        side = rng.randint(SMALLEST, LARGEST)
        x, y = rng.randint(0, SIDE - side), rng.randint(0, SIDE - side)
        apart = (max(abs(x + side / 2 - a - s / 2), abs(y + side / 2 - b - s / 2)) / (side + s) for a, b, s in taken)
        if all(gap >= 0.4 for gap in apart):
            taken.append((x, y, side))
            yield x, y, side


def judge(truth: Path, answers: Path) -> dict[str, float]:
    """How many digits were found, with the right class and within three pixels, each by a prediction of its own."""
    there, found, right = 0, 0, 0
    for wanted, answer in zip(lines(truth), lines(answers), strict=True):
        ours, theirs = answer["objects"], wanted["objects"]
        hits = np.array([[is_found(one, other) for other in theirs] for one in ours]).reshape(len(ours), len(theirs))
        right += int(hits[linear_sum_assignment(~hits)].sum())
        there, found = there + len(theirs), found + len(ours)
    return {"digits": there, "predicted": found, "recall": right / there, "precision": right / max(1, found)}


def is_found(prediction: dict, digit: dict) -> bool:
    apart = np.hypot(*np.subtract(prediction["at"], digit["at"]))
    return prediction["digit"] == digit["digit"] and bool(apart <= WITHIN)


def lines(path: Path) -> Iterator[dict]:
    return (json.loads(line) for line in path.read_text().splitlines())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("make").add_argument("folder", type=Path)
    judging = commands.add_parser("judge")
    judging.add_argument("truth", type=Path)
    judging.add_argument("answers", type=Path)
    given = parser.parse_args()
    if given.command == "make":
        make(given.folder)
    else:
        print(json.dumps(judge(given.truth, given.answers)))

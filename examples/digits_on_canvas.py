"""How many handwritten digits were found in pictures, with the right class and in the right place.

setpred data digits --out digits                             2,000 pictures to learn from, 400 others
setpred train digits --out run
setpred predict run digits/val.jsonl > found.jsonl
python examples/digits_on_canvas.py digits/val.jsonl found.jsonl
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

WITHIN = 3.0  # pixels between the place of a digit and where it is found


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
    parser.add_argument("truth", type=Path)
    parser.add_argument("answers", type=Path)
    print(json.dumps(judge(**vars(parser.parse_args()))))

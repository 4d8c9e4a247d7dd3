"""The number that each element of a class got: cards of a report, and iterate by iterate."""

from collections.abc import Sequence
from html import escape
from typing import Any

from torch import Tensor

from .view import Batch, Examples, Trained, View

TINTS = ("blue", "orange", "green", "purple", "vermilion", "sky", "brown", "grey")


class NumbersView(View):
    """Elements by their class, each with its number; inputs and targets are one-hot."""

    count = 1
    has_losses = False

    def first(self, settings: Any) -> str:
        return "the first test example: a class of k elements needs each of 0 to k - 1 once; wrong ones are struck."

    def worst(self, settings: Any, among: str) -> str:
        return f"of {among} test sets the one with most wrong numbers; struck numbers are taken or too large."

    def draw(self, shown: Examples, chosen: Sequence[int], title: str, settings: Any) -> str:
        assert shown.inputs is not None
        cards = []
        for example in chosen:
            wrong, size = int(shown.error[example]), shown.inputs.shape[1]
            note = f"{wrong} of {size} wrong" if wrong else f"all {size} right"
            cards.append(numbered(title, note, shown.inputs[example], shown.predicted[example]))
        return "".join(cards)

    def state(self, experiment: Trained, batch: Batch, index: int, steps: int) -> dict[str, Any]:
        """The number that each element gets at every iteration, and whether it is a wrong one."""
        trace = experiment.trace(batch, steps)
        chosen = (experiment.sets(batch) if trace is None else trace.sets[:, 0]).argmax(dim=-1)
        classes = batch[0][0].argmax(dim=-1)
        return {
            "kind": "numbering",
            "classes": classes.tolist(),
            "numbers": chosen.tolist(),
            "wrong": [wrong_numbers(classes, row).tolist() for row in chosen],
        }


def wrong_numbers(classes: Tensor, numbers: Tensor) -> Tensor:
    """Which elements are wrong, `[n]`: a class of k elements needs each of 0 to k - 1 once, whoever has it.

    >>> import torch
    >>> wrong_numbers(torch.tensor([0, 0, 0, 1]), torch.tensor([1, 1, 0, 2])).tolist()
    [False, True, False, True]
    """
    same = classes[:, None] == classes[None, :]
    too_large = numbers >= same.sum(dim=1)
    repeated = (same & (numbers[:, None] == numbers[None, :])).tril(diagonal=-1).any(dim=1)
    return too_large | repeated


def numbered(title: str, note: str, classes: Tensor, numbers: Tensor) -> str:
    """A card with the numbers that the elements of each class got, sorted, the wrong ones marked."""
    rows = []
    for which in classes.unique().tolist():
        got = numbers[classes == which].sort().values
        wrong = wrong_numbers(got.new_zeros(len(got)), got).tolist()
        missing = sorted(set(range(len(got))) - set(got.tolist()))
        chips = "".join(
            f'<span class="chip{" wrong" if bad else ""}">{number}</span>'
            for number, bad in zip(got.tolist(), wrong, strict=True)
        )
        gone = f'<span class="missing">missing {", ".join(map(str, missing))}</span>' if missing else ""
        tint = TINTS[which % len(TINTS)]
        rows.append(f'<div class="class" style="--tint:var(--{tint})"><b>{_letter(which)}</b>{chips}{gone}</div>')
    inside = "".join(rows)
    return f'<div class="card"><h4>{escape(title)}</h4><span class="quiet">{escape(note)}</span>{inside}</div>'


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else str(number)

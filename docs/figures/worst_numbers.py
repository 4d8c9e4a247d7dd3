"""Of each model the test set in which most numbers are wrong (the paper's Table 8)."""

import json
from pathlib import Path

import torch
from matplotlib.figure import Figure

from setpred.views.numbers import wrong_numbers
from setpred.views.style import ALARM, INK, MUTED, panel

KEPT = Path(__file__).parent.parent.parent / "results" / "numbering-small" / "worst.json"


def draw() -> Figure:
    models = json.loads(KEPT.read_text(encoding="utf-8"))
    rows = max(len(model["elements"]) for model in models)
    figure, axes = panel(width=1.5 * len(models), height=0.2 * rows + 0.9)
    for column, model in enumerate(models):
        classes, numbers = torch.tensor(model["elements"]).T
        axes.text(column, -2.2, model["name"].replace(" + ", "\n+ "), ha="center", va="center", fontweight="bold")
        axes.text(column, -0.9, f"{model['wrong']} wrong", ha="center", va="center", color=MUTED)
        for row, wrong in enumerate(wrong_numbers(classes, numbers).tolist()):
            text = f"({'abcdefgh'[classes[row]]}, {numbers[row]})"
            style = {"color": ALARM, "fontweight": "bold"} if wrong else {"color": INK}
            axes.text(column, row, text, ha="center", va="center", fontsize=8.5, **style)
    axes.set(xlim=(-0.5, len(models) - 0.5), ylim=(rows - 0.4, -3))
    axes.set_axis_off()
    return figure

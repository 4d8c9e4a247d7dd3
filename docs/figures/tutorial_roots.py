"""Predicted against true roots of the tutorial's test polynomials."""

import torch
from matplotlib.figure import Figure
from tutorial_run import tutorial

from setpred.views.style import BLUE, MUTED, panel


def draw() -> Figure:
    names = tutorial()
    with torch.no_grad():
        found = names["model"].eval()(names["coefficients"])
    # In one dimension the best match is that of the sorted numbers.
    found, true = (sets.squeeze(-1).sort(dim=1).values.flatten() for sets in (found, names["roots"]))
    figure, axes = panel(width=4.2, height=3.6)
    axes.plot([-1, 1], [-1, 1], color=MUTED, linewidth=1)
    axes.scatter(true, found, s=5, color=BLUE, alpha=0.5, linewidth=0)
    axes.set(title="Roots", xlabel="true", ylabel="predicted", aspect="equal")
    return figure

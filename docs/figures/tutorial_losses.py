"""The training loss of the tutorial's model."""

from matplotlib.figure import Figure
from tutorial_run import tutorial

from setpred.views.style import BLUE, MUTED, panel


def draw() -> Figure:
    names = tutorial()
    figure, axes = panel(width=5.2, height=2.8)
    axes.semilogy(names["losses"], color=BLUE)
    axes.axhline(float(names["constant"]), color=MUTED, linestyle=(0, (4, 2)))
    axes.text(300, float(names["constant"]) * 1.1, "the same answer for every input", ha="right", color=MUTED)
    axes.set(title="Training loss", xlabel="step")
    return figure

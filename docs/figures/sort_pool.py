"""One channel of FSPool on four elements: who gets which rank, and what comes back."""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import setpred as sp
from setpred.views.style import BLUE, FAINT, GREEN, INK, MUTED, PURPLE, VERMILION, panel

COLOURS = (BLUE, VERMILION, GREEN, PURPLE)
VALUES = torch.tensor([0.3, -0.4, 0.9, 0.3])
WEIGHTS = torch.tensor([0.8, -0.2, 0.5, -1.0])


def draw() -> Figure:
    pool = sp.FSPool(channels=1, size=len(VALUES))
    pool.weight.data = WEIGHTS[:, None]
    features = VALUES[None, :, None].clone().requires_grad_()
    pooled = pool(features)
    pooled.backward()
    assert features.grad is not None
    gradient = features.grad.flatten()
    ranks = [int((g == WEIGHTS).nonzero()) for g in gradient]  # the weights differ, so each names its rank
    figure, axes = panel(width=7.8, height=2.7)
    axes.set(xlim=(-1.6, 10.4), ylim=(-0.75, 4.2))
    axes.axis("off")
    for i, colour in enumerate(COLOURS):
        row, rank = 3 - i, ranks[i]
        place = 3 - rank
        cell(axes, 0, row, f"{VALUES[i]:+.1f}", colour)
        axes.annotate("", (3.1, place), (0.75, row), arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.3})
        cell(axes, 3.8, place, f"{VALUES[i]:+.1f}", colour)
        axes.text(4.75, place, f"× {WEIGHTS[rank]:+.1f}", va="center", color=INK)
        axes.annotate("", (9.0, row), (6.3, place), arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.3})
        cell(axes, 9.7, row, f"{gradient[i]:+.1f}", colour)
        axes.text(-1.5, row, f"element {i + 1}", va="center", ha="left", color=MUTED, fontsize=8)
    for x, title in ((0, "features"), (3.8, "sorted"), (5.2, "weight of the rank"), (9.7, "gradient")):
        axes.text(x, 3.75, title, ha="center" if title != "weight of the rank" else "left", weight="bold", fontsize=9)
    axes.text(4.4, -0.65, f"pooled: {pooled.item():+.2f}", ha="center", color=INK, fontsize=9)
    return figure


def cell(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    box = {"boxstyle": "round,pad=0.35", "facecolor": FAINT, "edgecolor": colour, "linewidth": 1.4}
    axes.text(x, y, text, ha="center", va="center", color=INK, bbox=box)

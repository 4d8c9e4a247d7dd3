"""Figures of sets: predicted against true points, and the grid over n and d."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .evidence import Evidence, matched
from .look import FAINT, INK, MUTED, legend_below, model_style, panel
from .runs import Run, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Standard normal data hardly reach beyond.
FARTHEST = 6.0
MARKERS = ("x", "+", "1", "2")


def example_sets(evidence: Evidence, chosen: Sequence[int], among: Sequence[Run]) -> "Figure":
    """Some examples of one run side by side, with a line from each prediction to the element it is matched with."""
    figure, axes = panel(1, len(chosen), width=5.4, height=2.45, squeeze=False)
    colour, _ = model_style(evidence.run.model)
    for cell, example in zip(axes[0], chosen, strict=True):
        predicted, target = evidence.predicted[example], evidence.target[example]
        pairs = zip(predicted, matched(predicted, target), strict=True)
        for here, there in pairs:
            cell.plot(*zip(_plane(here), _plane(there), strict=True), color=MUTED, linewidth=0.9, zorder=1)
        _truth(cell, target)
        _points(cell, predicted, colour, "x", "predicted")
        _frame(cell, predicted, target)
        cell.set_title(f"loss {float(evidence.error[example]):.2g}", fontsize=8.5, fontweight="normal")
    legend_below(figure, axes[0][0])
    figure.suptitle(label(evidence.run, among), x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    return figure


def grid(shown: Sequence[Evidence]) -> "Figure":
    """The first example of each combination of n and d, the models over each other (the paper's Figure 4)."""
    ns = sorted({evidence.run["data.n"] for evidence in shown})
    ds = sorted({evidence.run["data.d"] for evidence in shown})
    models = list(dict.fromkeys(evidence.run.model for evidence in shown))
    width = max(4.6, 1.7 * len(ds) + 0.5)
    figure, axes = panel(len(ns), len(ds), width=width, height=1.7 * len(ns) + 0.8, squeeze=False)
    for row, n in zip(axes, ns, strict=True):
        for cell, d in zip(row, ds, strict=True):
            here = [e for e in shown if (e.run["data.n"], e.run["data.d"]) == (n, d)]
            here = [e for e in here if torch.equal(e.target[0], here[0].target[0])]  # other seeds have other sets
            if not here:
                cell.set_axis_off()
                continue
            _truth(cell, here[0].target[0])
            for evidence in here:
                colour, _ = model_style(evidence.run.model)
                marker = MARKERS[models.index(evidence.run.model) % len(MARKERS)]
                _points(cell, evidence.predicted[0], colour, marker, evidence.run.name)
            _frame(cell, here[0].target[0], *(evidence.predicted[0] for evidence in here))
            cell.set_title(f"n={n}, d={d}", fontsize=8.5, fontweight="normal")
    fullest = max(axes.flat, key=lambda cell: len(cell.collections))
    legend_below(figure, fullest, columns=3)
    return figure


def _plane(points: Tensor) -> Tensor:
    """The first two dimensions; a single one is drawn along a line."""
    return points[..., :2] if points.shape[-1] > 1 else points.repeat_interleave(2, dim=-1) * points.new_tensor([1, 0])


def _truth(axes: "Axes", target: Tensor) -> None:
    across, up = _plane(target).T
    axes.scatter(across, up, s=42, facecolors="none", edgecolors=INK, linewidths=1.1, label="true", zorder=2)


def _points(axes: "Axes", points: Tensor, colour: str, marker: str, name: str) -> None:
    across, up = _plane(points).T
    axes.scatter(across, up, s=26, color=colour, marker=marker, linewidths=1.6, label=name, zorder=3)


def _frame(axes: "Axes", *sets: Tensor) -> None:
    """A square that holds all points, but does not follow a lost one out of sight of the others."""
    points = _plane(torch.cat(sets)).clamp(-FARTHEST, FARTHEST)
    low, high = points.amin(dim=0), points.amax(dim=0)
    (across, up), reach = ((low + high) / 2).tolist(), 0.6 * max(float((high - low).max()), 0.5)
    axes.set(xlim=(across - reach, across + reach), ylim=(up - reach, up + reach))
    axes.set_aspect("equal")
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=FAINT)

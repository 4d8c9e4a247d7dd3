"""Sets of points: predicted against true, in a figure and iterate by iterate."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..matching import hungarian_loss, match
from ..solution import Trace
from .style import FAINT, INK, MUTED, legend_below, model_style, panel
from .view import Batch, Examples, Trained, View, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Standard normal data hardly reach beyond.
FARTHEST = 6.0
MARKERS = ("x", "+", "1", "2")
DIVERGED = 1e4
"""Farther out an iterate has diverged, though it may still be a number."""


class PointsView(View):
    """The first two numbers of each element as a point in the plane."""

    def first(self, settings: Any) -> str:
        return f"the first test sets{_first_two(settings)}. A good prediction sits in its circle."

    def worst(self, settings: Any, among: str) -> str:
        return (
            f"the worst of {among} test sets{_first_two(settings)}: look whether single elements are lost or the whole "
            "set is blurred."
        )

    def draw(self, shown: Examples, chosen: Sequence[int], title: str, settings: Any) -> "Figure":
        """Some examples side by side, with a line from each prediction to the element it is matched with."""
        figure, axes = panel(1, len(chosen), width=5.4, height=2.45, squeeze=False)
        colour, _ = model_style(settings.model)
        for cell, example in zip(axes[0], chosen, strict=True):
            predicted, target = shown.predicted[example], shown.target[example]
            pairs = zip(predicted, matched(predicted, target), strict=True)
            for here, there in pairs:
                cell.plot(*zip(_plane(here), _plane(there), strict=True), color=MUTED, linewidth=0.9, zorder=1)
            _truth(cell, target)
            _points(cell, predicted, colour, "x", "predicted")
            _frame(cell, predicted, target)
            cell.set_title(f"loss {float(shown.error[example]):.2g}", fontsize=8.5, fontweight="normal")
        legend_below(figure, axes[0][0])
        figure.suptitle(title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
        return figure

    def state(self, experiment: Trained, batch: Batch, index: int, steps: int) -> dict[str, Any]:
        target = self.target(batch)
        trace = experiment.trace(batch, steps)
        if trace is None:
            sets = experiment.sets(batch)
            trace = Trace(sets[None], sets.new_zeros(1, 1), sets.new_zeros(1, 1))
        shown = followed(trace, target)

        def plane(rows: list[list[float]]) -> list[list[float]]:
            return [[*row, 0.0][:2] for row in rows]

        return {
            "kind": "points",
            "target": plane(numbers(target)),
            "dim": target.shape[1],
            **shown,
            "frames": [plane(frame) for frame in shown["frames"]],
        }

    def target(self, batch: Batch) -> Tensor:
        """The elements `[n, dim]` that are to be predicted; a mask in the batch says which of them exist."""
        if batch[-1].dtype == torch.bool:
            return batch[-2][0][batch[-1][0]]
        return batch[-1][0]


def followed(trace: Trace, target: Tensor) -> dict[str, Any]:
    """A trace of one example against its target `[n, dim]`, for the page."""
    sets, inner = trace.sets[:, 0, : len(target)], trace.loss[:, 0]
    fine = (sets.abs() < DIVERGED).flatten(1).all(dim=1) & inner.isfinite()
    found, truth = sets[fine], target.expand_as(sets[fine])
    error = torch.full_like(inner, torch.nan)
    error[fine] = hungarian_loss(found, truth)
    return {
        "frames": numbers(sets.masked_fill(~fine[:, None, None], torch.nan)),
        "pairs": match(found, truth).target.tolist(),
        "inner": numbers(inner.masked_fill(~fine, torch.nan), digits=8),
        "error": numbers(error, digits=8),
        "diverged": not bool(fine.all()),
    }


def matched(predicted: Tensor, target: Tensor) -> Tensor:
    """The target elements in the order of the predicted ones they are matched with, both `[n, d]`."""
    return target[match(predicted[None], target[None]).target[0]]


def grid(shown: "Sequence[tuple[Any, str, Examples]]") -> "Figure":
    """The first example of each combination of n and d, the models over each other (the paper's Figure 4).

    Args:
        shown: settings, the name of the model, and its examples.
    """
    sizes = [(settings.data.n, settings.data.d) for settings, _, _ in shown]
    ns, ds = sorted({n for n, _ in sizes}), sorted({d for _, d in sizes})
    models = list(dict.fromkeys(settings.model for settings, _, _ in shown))
    width = max(4.6, 1.7 * len(ds) + 0.5)
    figure, axes = panel(len(ns), len(ds), width=width, height=1.7 * len(ns) + 0.8, squeeze=False)
    for row, n in zip(axes, ns, strict=True):
        for cell, d in zip(row, ds, strict=True):
            here = [each for each, size in zip(shown, sizes, strict=True) if size == (n, d)]
            # Other seeds have other sets.
            here = [each for each in here if torch.equal(each[2].target[0], here[0][2].target[0])]
            if not here:
                cell.set_axis_off()
                continue
            _truth(cell, here[0][2].target[0])
            for settings, name, examples in here:
                colour, _ = model_style(settings.model)
                marker = MARKERS[models.index(settings.model) % len(MARKERS)]
                _points(cell, examples.predicted[0], colour, marker, name)
            _frame(cell, here[0][2].target[0], *(examples.predicted[0] for _, _, examples in here))
            cell.set_title(f"n={n}, d={d}", fontsize=8.5, fontweight="normal")
    fullest = max(axes.flat, key=lambda cell: len(cell.collections))
    legend_below(figure, fullest, columns=3)
    return figure


def _first_two(settings: Any) -> str:
    dim = getattr(settings.data, "d", 2)
    return f" (the first two of {dim} dimensions)" if dim > 2 else ""


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

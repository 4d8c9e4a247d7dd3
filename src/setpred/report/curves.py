"""Figures over time: learning curves, and the inner optimisation against its iterations."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..views.style import INK, MUTED, PAPER, legend_below, model_style, panel, plain
from .runs import Predictions, Run, label, problem_letters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Runs of one model that differ in something else than the seed.
MARKS = ("", "o", "s", "^", "D", "v")


def loss_curves(runs: Sequence[Run]) -> "Figure":
    """Training loss against steps, a line a run; validation dotted where there is one."""
    figure, axes = panel(height=3.3)
    for run, name, mark in _marked(runs):
        colour, dashes = model_style(run.model)
        steps = run.curve.get("step", [])
        missing = [math.nan] * len(steps)
        common = {"color": colour, "marker": mark, "markersize": 3.5, "markevery": max(1, len(steps) // 8)}
        axes.plot(steps, run.curve.get("train/loss", missing), linestyle=dashes, label=name, **common)
        if "val/loss" in run.curve:
            axes.plot(steps, run.curve["val/loss"], linestyle=":", linewidth=1.2, color=colour)
    if any("val/loss" in run.curve for run in runs):
        axes.plot([], [], linestyle=":", color=INK, linewidth=1.2, label="validation")
    axes.set(xlabel="training step", title=f"{plain(problem_letters(runs[0]))}: training loss")
    _log_if_wide(axes, (value for run in runs for value in run.curve.get("train/loss", [])))
    legend_below(figure, axes, columns=1 if len(runs) < 4 else 2)
    return figure


def accuracy_curves(runs: Sequence[Run]) -> "Figure":
    """Share of validation sets that are right in every element, against steps."""
    figure, axes = panel(height=3.3)
    for run, name, mark in _marked(runs):
        colour, dashes = model_style(run.model)
        steps = run.curve.get("step", [])
        percent = [100 * value for value in run.curve["val/accuracy"]]
        common = {"marker": mark, "markersize": 3.5, "markevery": max(1, len(steps) // 8)}
        axes.plot(steps, percent, color=colour, linestyle=dashes, label=name, clip_on=False, **common)
    axes.set(
        xlabel="training step",
        title=f"{plain(problem_letters(runs[0]))}: validation sets entirely right, %",
        ylim=(0, 100),
    )
    legend_below(figure, axes, columns=1 if len(runs) < 4 else 2)
    return figure


def inner_optimisation(shown: Sequence[Predictions], what: str) -> "Figure":
    """`what` is objective or error: its median over the examples and the range of the middle half."""
    figure, axes = panel(height=3.3)
    runs = [predictions.run for predictions in shown]
    medians: list[float] = []
    for predictions, (run, name, mark) in zip(shown, _marked(runs), strict=True):
        assert predictions.descent is not None
        low, middle, high = _quartiles(getattr(predictions.descent, what))
        medians += middle.tolist()
        colour, dashes = model_style(run.model)
        iterations = range(len(middle))
        axes.fill_between(iterations, low, high, color=colour, alpha=0.16, linewidth=0)
        marks = {"marker": mark, "markersize": 3.5, "markevery": 12}
        axes.plot(iterations, middle, color=colour, linestyle=dashes, label=name, **marks)
        trained = run["solver.steps"]
        if trained < len(middle):
            axes.plot(trained, middle[trained], "o", color=colour, markerfacecolor=PAPER, markersize=6.5, zorder=4)
    for steps in sorted({run["solver.steps"] for run in runs}):
        axes.axvline(steps, color=MUTED, linestyle=(0, (2, 2)), linewidth=1)
        axes.text(steps, 1.0, f" T={steps}", transform=axes.get_xaxis_transform(), va="top", color=MUTED, fontsize=8)
    title = {"objective": "inner objective, what is minimised", "error": "error of the set, what is wanted"}
    axes.set(xlabel="inner iteration", title=f"{plain(problem_letters(runs[0]))}: {title[what]}")
    axes.margins(x=0.01)
    _log_if_wide(axes, medians)
    legend_below(figure, axes, columns=1 if len(runs) < 4 else 2)
    return figure


def _marked(runs: Sequence[Run]) -> list[tuple[Run, str, str]]:
    """Each run with its name (once for all seeds of a setting; matplotlib leaves out names that begin with _)."""
    settings: dict[str, list[tuple[object, ...]]] = {}
    marked = []
    for run in runs:
        known = settings.setdefault(run.model, [])
        name = "_" if run.setting in known else label(run, runs)
        if run.setting not in known:
            known.append(run.setting)
        marked.append((run, name, MARKS[known.index(run.setting) % len(MARKS)]))
    return marked


def _quartiles(values: Tensor) -> Tensor:
    """Over the examples, `[3, iterations]`; sorting, for interpolation between infinities gives NaN."""
    ordered = values.sort(dim=1).values
    last = values.shape[1] - 1
    chosen = ordered[:, [last // 4, last // 2, last * 3 // 4]].T
    return chosen.where(chosen.isfinite(), torch.nan)


def _log_if_wide(axes: "Axes", values: Iterable[float]) -> None:
    """Logarithmic where the curves span more than a factor of ten and never reach zero."""
    finite = [float(value) for value in values if math.isfinite(value)]
    if finite and min(finite) > 0 and max(finite) > 10 * min(finite):
        axes.set_yscale("log")

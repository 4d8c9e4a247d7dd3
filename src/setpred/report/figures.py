"""The figures of a report: learning curves, the inner optimisation, and models compared, as in the paper."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..paper.tables import Published
from ..views.style import INK, MUTED, PAPER, legend_below, model_style, panel, plain
from .runs import Predictions, Run, grouped, label, problem_letters
from .verdict import Average

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Runs of one model that differ in something else than the seed.
MARKS = ("", "o", "s", "^", "D", "v")
HATCHES = ("", "///", "...", "xxx", "\\\\\\")
# A bar's length means something only on a linear axis, as long as the shortest can still be seen.
LINEAR_UP_TO = 8
Bar = tuple[str, Average]
"""A bar's name in the legend, and what it shows."""


def loss_curves(runs: Sequence[Run]) -> "Figure":
    """Training loss against steps, one line per run; validation dotted where there is one."""
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
    title = {"objective": "inner objective (minimised)", "error": "error of the set (the goal)"}
    axes.set(xlabel="inner iteration", title=f"{plain(problem_letters(runs[0]))}: {title[what]}")
    axes.margins(x=0.01)
    _log_if_wide(axes, medians)
    legend_below(figure, axes, columns=1 if len(runs) < 4 else 2)
    return figure


def precisions(runs: Sequence[Run]) -> "Figure":
    """Average precision by the distance within which an object counts as found: mean of seeds, one line per model."""
    figure, axes = panel(height=3.3)
    names = ["ap_inf", "ap_1", "ap_0.5", "ap_0.25", "ap_0.125", "ap_0.0625"]
    for group in grouped(runs, lambda run: run.setting):
        percent = [100 * fmean(run.metric(name) for run in group) for name in names]
        colour, dashes = model_style(group[0].model)
        marks = {"marker": "o", "markersize": 3.5, "clip_on": False}
        axes.plot(range(len(names)), percent, color=colour, linestyle=dashes, label=label(group[0], runs), **marks)
    axes.set_xticks(range(len(names)), ["∞" if name == "ap_inf" else name.removeprefix("ap_") for name in names])
    axes.set(xlabel="found within a distance of", title="average precision, %", ylim=(0, 100))
    legend_below(figure, axes, columns=1 if len(runs) < 4 else 2)
    return figure


def equal_iterations(shown: Sequence[Average]) -> "Figure":
    """Losses of all models, grouped by their number of inner iterations (Figure 1, left and right)."""
    figure, axes = panel(height=3.3)
    steps = sorted({average.run["solver.steps"] for average in shown})
    groups = [[(_series(a, shown), a) for a in shown if a.run["solver.steps"] == count] for count in steps]
    _bars(axes, groups)
    axes.set_xticks(range(len(steps)), [f"T={count}" for count in steps])
    axes.set(title=f"{problem_letters(shown[0].run)}: loss at equal iterations")
    legend_below(figure, axes, columns=1)
    return figure


def equal_computation(shown: Sequence[Average]) -> "Figure | None":
    """DSPN at T beside iDSPN at 2T, which cost about the same (Figure 1, middle); None without such pairs."""
    dspn = {a.run["solver.steps"]: a for a in shown if a.run.model == "dspn"}
    groups: list[list[Bar]] = []
    names = []
    for steps, unrolled in sorted(dspn.items()):
        twice = [a for a in shown if a.run.model.startswith("idspn") and a.run["solver.steps"] == 2 * steps]
        if twice:
            groups.append([(_series(a, shown), a) for a in (*twice, unrolled)])
            names.append(f"DSPN T={steps}\niDSPN T={2 * steps}")
    if not groups:
        return None
    figure, axes = panel(height=3.3)
    _bars(axes, groups)
    axes.set_xticks(range(len(names)), names)
    axes.set(title=f"{problem_letters(shown[0].run)}: loss at equal computation")
    legend_below(figure, axes, columns=1)
    return figure


def references(shown: Sequence[Average]) -> dict[tuple[int, int], Average]:
    """For each (n, d) the DSPN run with the fewest iterations, the paper's reference."""
    found: dict[tuple[int, int], Average] = {}
    for average in sorted(shown, key=lambda a: a.run["solver.steps"]):
        if average.run.model == "dspn":
            found.setdefault((average.run["data.n"], average.run["data.d"]), average)
    return found


def relative_losses(shown: Sequence[Average], fixed: str, value: int) -> "Figure | None":
    """Losses divided by the reference's, for one n and all d or the other way round (Figures 2 and 3).

    None where there is a single size, which the absolute losses already show.
    """
    other = "data.d" if fixed == "data.n" else "data.n"
    reference = references(shown)
    groups: dict[int, list[Bar]] = {}
    # All models at the fewest iterations first, as the paper has it.
    for average in sorted(shown, key=lambda a: (a.run[other], a.run["solver.steps"])):
        unit = reference.get((average.run["data.n"], average.run["data.d"]))
        if average.run[fixed] == value and unit is not None:
            bar = _series(average, shown, keep=True), _divided(average, unit)
            groups.setdefault(average.run[other], []).append(bar)
    if len(groups) < 2:
        return None
    figure, axes = panel(height=3.8)
    _bars(axes, list(groups.values()))
    axes.axhline(1, color=MUTED, linewidth=1)
    axes.set_xticks(range(len(groups)), [f"{other[-1]}={size}" for size in groups])
    axes.set(title=f"{fixed[-1]}={value}: loss relative to DSPN")
    legend_below(figure, axes)
    return figure


def bars(shown: Sequence[Average]) -> "Figure":
    """The metric that the task compares models by, a bar per model; fractions in percent."""
    kind = shown[0].run.kind
    ordered = sorted(shown, key=lambda a: a.mean, reverse=kind.lower_is_better)
    runs = [average.run for average in shown]
    fraction = not kind.lower_is_better
    scale = 100 if fraction else 1
    figure, axes = panel(height=1.1 + 0.34 * len(ordered))
    most = 100 if fraction else max(average.mean for average in ordered)
    for place, average in enumerate(ordered):
        colour, _ = model_style(average.run.model)
        axes.barh(place, scale * average.mean, color=colour, height=0.62)
        axes.scatter([scale * v for v in average.values], [place] * len(average.values), s=7, color=INK, zorder=3)
        number = f"{100 * average.mean:.1f}" if fraction else f"{average.mean:.3g}"
        axes.text(1.015 * most, place, number, va="center", fontsize=8.5, clip_on=False)
        if average.published is not None:
            mean, std = scale * average.published.mean, scale * average.published.std
            axes.errorbar(mean, place, xerr=std, **_published_style())
    axes.set_yticks(range(len(ordered)), [label(average.run, runs) for average in ordered])
    named = "Test sets entirely right" if kind.metric == "accuracy" else kind.metric.capitalize()
    axes.set(xlim=(0, most), title=f"{named}, %" if fraction else named)
    axes.grid(False, axis="y")
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


def _bars(axes: "Axes", groups: Sequence[Sequence[Bar]]) -> None:
    """Bars side by side in each group, every series in the same place of all groups."""
    fullest = max(groups, key=len)
    names = list(dict.fromkeys(name for group in (fullest, *groups) for name, _ in group))
    models: dict[str, list[str]] = {}
    width = min(0.26, 0.84 / len(names))
    for group in groups:
        for name, average in group:
            of_model = models.setdefault(average.run.model, [])
            of_model.extend([] if name in of_model else [name])
    for order, name in enumerate(names):
        offset = (order - (len(names) - 1) / 2) * width
        own = [(place + offset, a) for place, group in enumerate(groups) for other, a in group if other == name]
        model = own[0][1].run.model
        colour, _ = model_style(model)
        hatch = HATCHES[models[model].index(name) % len(HATCHES)]
        heights = [average.mean for _, average in own]
        places = [place for place, _ in own]
        axes.bar(places, heights, width * 0.9, color=colour, hatch=hatch, edgecolor=PAPER, linewidth=0, label=name)
        for place, average in own:
            axes.scatter([place] * len(average.values), average.values, s=7, color=INK, zorder=3)
            if average.published is not None:
                axes.errorbar(place, average.published.mean, yerr=average.published.std, **_published_style())
    if any(average.published is not None for group in groups for _, average in group):
        axes.errorbar([], [], yerr=[], label="published, mean ± std", **_published_style())
    axes.grid(False, axis="x")
    axes.set_xlim(-0.6, len(groups) - 0.4)
    means = [average.mean for group in groups for _, average in group]
    if max(means) > LINEAR_UP_TO * min(means):
        axes.set_yscale("log")
        axes.set_ylim(bottom=min(means) / 2)
    else:
        axes.set_ylim(bottom=0)
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)


def _published_style() -> dict[str, Any]:
    return {
        "fmt": "D",
        "markersize": 5,
        "markerfacecolor": PAPER,
        "markeredgecolor": INK,
        "ecolor": INK,
        "elinewidth": 1,
        "capsize": 2.5,
        "zorder": 4,
    }


def _series(average: Average, shown: Sequence[Average], keep: bool = False) -> str:
    """The name of a bar that recurs in several groups; with `keep` the iterations are part of it."""
    without = ("data.n", "data.d") if keep else ("data.n", "data.d", "solver.steps")
    return label(average.run, [a.run for a in shown], without)


def _divided(average: Average, unit: Average) -> Average:
    published = None
    if average.published is not None and unit.published is not None:
        scale = unit.published.mean
        published = Published(average.published.mean / scale, average.published.std / scale)
    return Average(average.run, [value / unit.mean for value in average.values], published)

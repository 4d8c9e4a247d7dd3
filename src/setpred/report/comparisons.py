"""Models against each other, averaged over seeds: bars of a task's metric, and the paper's Figures 1 to 3."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from ..paper.published_value import Published, published_value
from ..views.style import INK, MUTED, PAPER, legend_below, model_style, panel
from .runs import Run, grouped, label, problem_letters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HATCHES = ("", "///", "...", "xxx", "\\\\\\")
# A bar's length means something only on a linear axis, as long as the shortest can still be seen.
LINEAR_UP_TO = 8


@dataclass
class Average:
    """A setting: one of its runs, the metric of each seed that ended in a number, and the published cell if any."""

    run: Run
    values: list[float]
    published: Published | None

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def std(self) -> float:
        return stdev(self.values) if len(self.values) > 1 else 0.0


def averages(runs: Iterable[Run]) -> list[Average]:
    """One for each setting with a finished run of a task that was published."""
    found = []
    for group in grouped((run for run in runs if run.finished), lambda run: run.setting):
        values = [run.score for run in group]
        values = [value for value in values if math.isfinite(value)]
        if values:
            found.append(Average(group[0], values, published(group[0])))
    return found


def published(run: Run) -> Published | None:
    """What the paper says about exactly this setting."""
    return published_value(run.settings)


Bar = tuple[str, Average]
"""A bar's name in the legend, and what it shows."""


def precisions(runs: Sequence[Run]) -> "Figure":
    """Average precision against the distance within which an object counts as found; a line a model, mean of seeds."""
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

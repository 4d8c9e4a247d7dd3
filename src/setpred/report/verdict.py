"""What a result means, in sentences: the headline of a report, and the lines after a training."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from ..paper.tables import Published, published_nearby, published_value
from ..tasks import Task, find_task
from ..tasks.settings import Settings
from .runs import Run, grouped, label

NAMED = 4
"""So many models a headline names at most."""


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


def amount(metric: str, value: float) -> str:
    """A metric as people write it.

    >>> amount("accuracy", 0.968), amount("ap_0.5", 0.8), amount("loss", 0.00057), amount("loss", 0.21)
    ('96.8 %', '80.0 %', '5.7e-04', '0.21')
    """
    if value != value:
        return "NaN"
    if is_fraction(metric):
        return f"{100 * value:.1f} %"
    return f"{value:.1e}" if 0 < abs(value) < 0.01 else f"{value:.3g}"


def is_fraction(metric: str) -> bool:
    return (
        metric in ("score", "diverged", "restarted")
        or "accuracy" in metric
        or "ap_" in metric
        or metric.endswith(" right")
    )


def headline(runs: Iterable[Run]) -> list[str]:
    """The best model and what it did, beside the others: one sentence per problem, from the finished runs.

    Problems with more to compare come first.
    """
    found = averages(runs)
    problems: dict[object, list[Average]] = {}
    for average in found:
        problems.setdefault(average.run.problem, []).append(average)
    several = len(problems) > 1
    return [_sentence(group, several) for group in sorted(problems.values(), key=len, reverse=True)]


def _sentence(group: Sequence[Average], several: bool) -> str:
    kind = group[0].run.kind
    ranked = sorted(group, key=lambda average: average.mean, reverse=not kind.lower_is_better)
    named = ranked if len(ranked) <= NAMED else [*ranked[: NAMED - 1], ranked[-1]]
    runs = [average.run for average in group]
    best, *others = named
    text = f"{label(best.run, runs)} {kind.achievement.format(amount(kind.metric, best.mean))}"
    beside = [f"{label(other.run, runs)} {amount(kind.metric, other.mean)}" for other in others]
    text = "; ".join([text, *beside[:-1], *(["…"] if len(named) < len(ranked) else []), *beside[-1:]])
    trivial = best.run.result.get("trivial_loss", math.nan)
    if not others and kind.metric == "loss" and math.isfinite(trivial):
        text += f"; the same average set for every input has {amount('loss', trivial)}"
    return f"{text} ({kind.problem(best.run.settings)})." if several else f"{text}."


def goals(runs: Sequence[Run]) -> list[str]:
    """What each task asks of a model."""
    kinds = {run.task: run.kind for run in runs}
    return [f"{task.capitalize()}: {kind.goal}" for task, kind in kinds.items() if kind.goal]


def terms(runs: Sequence[Run]) -> list[str]:
    """What the columns of a table of these runs mean."""
    metrics: dict[str, set[str]] = {}  # of each task
    for run in runs:
        metrics.setdefault(run.task, {run.kind.metric}).update(run.result.get("metrics", {}))
    judged = {run.task: run.kind.metric for run in runs}
    meanings = {run.task: run.kind.meaning for run in runs}
    known = {
        "loss": "what training makes smaller, such as the distance between predicted and true sets",
        "element_accuracy": "the fraction of elements that are right",
        "diverged": "the fraction of test sets whose inner optimisation left the finite numbers",
        "restarted": "the fraction of test sets that were solved a second time",
    }

    def sentence(name: str, tasks: Sequence[str], meaning: str) -> str:
        """A word that means something else for other tasks is explained for these alone."""
        others = any(name in metrics[task] for task in metrics if task not in tasks)
        return f"{name.replace('_', ' ')}{f' of {listed(tasks)}' if others else ''}: {meaning}."

    sentences = [sentence(name, [task], meanings[task]) for task, name in judged.items()]
    for name, meaning in known.items():
        if tasks := [task for task in metrics if name in metrics[task] and judged[task] != name]:
            sentences.append(sentence(name, tasks, meaning))
    letters = {"data.n": "n elements per set", "data.d": "d numbers per element", "solver.steps": "T inner iterations"}
    used = [text for key, text in letters.items() if any(run[key] is not None for run in runs)]
    return [*sentences, *([f"Letters: {', '.join(used)}."] if used else [])]


def listed(words: Sequence[str]) -> str:
    """Words as a sentence lists them.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def verdict_lines(settings: Settings, result: dict[str, Any]) -> list[str]:
    """What is good about the result of a training, for a person who sees such a number for the first time."""
    kind = find_task(settings.task)
    metrics = result["metrics"]
    lines = [f"{_value(kind.metric, metrics)} is {kind.meaning}; {_scale(kind)}."]
    trivial = result.get("trivial_loss", math.nan)
    if "loss" in metrics and math.isfinite(trivial):
        own = amount("loss", metrics["loss"])
        lines.append(
            f"A model that always answers with the same average set has a loss of {trivial:.3g}; this one has {own}."
        )
    if (nearby := published_nearby(settings)) is not None:
        published, size = nearby
        value = f"{amount(published.metric, published.mean)} ± {amount(published.metric, published.std)}"
        # Averages over images are kinder than ranking all objects together, so like is set beside like.
        here = "" if published.metric == kind.metric else f" Here: {_value(published.metric, metrics)}."
        lines.append(f"Published for {settings.model}: {published.metric} {value} ({size}).{here}")
    return lines


def _value(metric: str, metrics: dict[str, float]) -> str:
    return f"{metric} {amount(metric, metrics.get(metric, math.nan))}"


def _scale(kind: Task) -> str:
    return "lower is better, and 0 is perfect" if kind.lower_is_better else "higher is better, and 100 % is perfect"

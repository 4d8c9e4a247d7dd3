"""The sections of a report, each made from the runs it has something to say about."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ..views.points import grid
from .figures import (
    accuracy_curves,
    bars,
    equal_computation,
    equal_iterations,
    inner_optimisation,
    loss_curves,
    precisions,
    relative_losses,
)
from .markup import Drawing, Section, cards, cell, heading, model_key, paragraph, table
from .runs import ITERATIONS, Predictions, Run, describe, grouped, label, shared_changes
from .verdict import Average, Published, amount, averages, listed, published, terms

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def overview(runs: Sequence[Run]) -> Section:
    """One row per run, the best of each problem in bold."""
    best = {}
    for group in grouped((run for run in runs if run.finished), lambda run: run.problem):
        values = [run.score for run in group if run.score == run.score]
        if len(group) > 1 and values:
            best[group[0].problem] = min(values) if group[0].kind.lower_is_better else max(values)
    metrics = list(dict.fromkeys(name for run in runs for name in run.result.get("metrics", {})))
    # By another rule, or of single fields; result.json has them.
    metrics = [name for name in metrics if not name.startswith("image_ap") and not name.endswith(" right")]
    known = {id(run): published(run) for run in runs}
    paper = ["published"] if any(known.values()) else []
    seeds, presets = {run.settings.seed for run in runs}, {run.settings.preset for run in runs}
    apart = [name for name, values in (("seed", seeds), ("preset", presets)) if len(values) > 1 or len(runs) == 1]
    names = ["model", "task", "setting", *metrics, *paper, "steps", "time", *apart]
    protocols: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        protocols.setdefault((run.task, run.settings.preset), []).append(run)
    rows = []
    for run in runs:
        cells = [
            cell(run.name, before=model_key(run.model)),
            cell(run.task),
            cell(describe(run, protocols[run.task, run.settings.preset], always=True)),
        ]
        for name in metrics:
            judged = name == run.kind.metric and run.score == best.get(run.problem)
            cells.append(cell(_value(name, run), "number", *(["best"] if judged else [])))
        if paper:
            cells.append(cell(_published(run, known[id(run)]), "number"))
        cells += [
            cell(_steps(run), "number"),
            cell(_duration(run.seconds), "number"),
            *([cell(str(run.settings.seed), "number")] if "seed" in apart else []),
            *([cell(run.settings.preset)] if "preset" in apart else []),
        ]
        rows.append(f"<tr{'' if run.finished else ' class=unfinished'}>{''.join(cells)}</tr>")
    numbers = ["seed", "steps", "time", *metrics, "published"]
    blocks: list[Drawing | str] = [table(names, rows, numbers), paragraph(" ".join(terms(runs)), quiet=True)]
    alike = [
        f"{name} {next(iter(values))}" for name, values in (("seed", seeds), ("preset", presets)) if name not in apart
    ]
    blocks += [paragraph(f"All runs have {listed(alike)}.", quiet=True)] if alike else []
    for (task, preset), group in protocols.items():
        if shared := shared_changes(group):
            blocks.append(paragraph(f"All runs of {task}, preset {preset}: {shared}.", quiet=True))
    unfinished = sum(not run.finished for run in runs)
    if unfinished:
        have = "run has" if unfinished == 1 else "runs have"
        blocks.append(paragraph(f"{unfinished} {have} not finished: only the curves so far are shown.", quiet=True))
    return Section("Runs", blocks)


def compared(runs: Sequence[Run]) -> Section:
    """Charts where there is something to compare, as each task wants it."""
    section = Section("Models compared")
    found = averages(runs)
    for of_task in grouped((run for run in runs if run.finished), lambda run: run.task):
        kind = of_task[0].kind
        if kind.comparison == "distances":
            section.blocks.append(_by_distance(of_task))
        elif groups := _comparable(found, of_task[0].task):
            section.blocks += _by_iterations(groups) if kind.comparison == "iterations" else [_by_model(groups)]
    return section


def _by_model(groups: Sequence[Sequence[Average]]) -> Drawing:
    run = groups[0][0].run
    usual = f"each bar is a model, each dot a seed; {'lower' if run.kind.lower_is_better else 'higher'} is better."
    sentence = f"{run.task.capitalize()}: {run.kind.remark or usual}{_beside(groups)}"
    return Drawing(f"{run.kind.metric}-{run.task}", sentence, [bars(group) for group in groups])


def _by_iterations(groups: Sequence[Sequence[Average]]) -> list[Drawing]:
    task = groups[0][0].run.task
    sentence = (
        f"{task.capitalize()}: lower is better, each dot is a seed. Compare the bars of a group; an iteration of DSPN "
        f"costs about two of iDSPN, so equal computation is the fairer race.{_beside(groups)}"
    )
    both = [figure for group in groups for figure in (equal_iterations(group), equal_computation(group))]
    drawings = [Drawing(f"losses-{task}", sentence, [figure for figure in both if figure is not None])]
    if panels := _relative([average for group in groups for average in group]):
        sentence = (
            f"{task.capitalize()}: losses relative to DSPN at its fewest iterations, by set size n and by dimension d. "
            f"Bars below the line beat it; look where the advantage shrinks.{_beside(groups)}"
        )
        drawings.append(Drawing(f"relative-{task}", sentence, panels))
    return drawings


def _by_distance(runs: Sequence[Run]) -> Drawing:
    sentence = (
        "Scenes: the fraction of objects found with all attributes right, and few false ones, as the distance that "
        "still counts shrinks. How far to the right a line stays up tells how exact the positions are."
    )
    panels = [precisions(group) for group in grouped(runs, lambda run: run.problem)]
    return Drawing(f"precision-{runs[0].task}", sentence, panels)


def learning(runs: Sequence[Run]) -> Section:
    """Loss curves, and accuracy where it is followed, panels for each problem."""
    section = Section("Learning")
    begun = [run for run in runs if run.curve.get("step")]
    for of_task in grouped(begun, lambda run: run.task):
        sentence = f"{of_task[0].task.capitalize()}: how fast each model learns"
        panels = []
        for group in grouped(of_task, lambda run: run.problem):
            judged = [run for run in group if "val/accuracy" in run.curve]
            panels += [accuracy_curves(judged)] if judged else []
            panels.append(loss_curves(group))
        if any("val/loss" in run.curve for run in of_task):
            sentence += ", and whether the dotted validation loss leaves the training loss"
        if len({run.iterates for run in of_task}) > 1:
            other = of_task[0].kind.baselines_differ
            sentence += f" (models without a decoder train {other}: compare the shapes, not the heights)"
        sentence += "."
        if any(run.guesses for run in of_task):
            sentence += (
                " The training loss of a model that guesses its initial set (GuessedInit) is the loss of its sets "
                "plus the loss of its guesses, so it is higher than the test loss, which counts the sets alone."
            )
        section.blocks.append(Drawing(f"learning-{of_task[0].task}", sentence, panels))
    return section


def inner(shown: Sequence[Predictions]) -> Section:
    """The inner optimisation of every model that has one."""
    section = Section("Inner optimisation")
    groups = _by_problem([predictions for predictions in shown if predictions.descent is not None])
    panels = [inner_optimisation(group, what) for group in groups for what in ("objective", "error")]
    if panels:
        count = max(each.descent.error.shape[1] for group in groups for each in group if each.descent)
        sentence = (
            f"Median over {count} test examples; the band holds the middle half. Rings mark the iterations used in "
            f"training; going on to {ITERATIONS} shows whether the set keeps improving, stays, or drifts away while "
            "the objective still falls."
        )
        if any(predictions.run["solver.settle"] for group in groups for predictions in group):
            sentence += (
                " A model that settles takes its last step without momentum: its curve drops at the very end, and its "
                "predictions are better than its ring."
            )
        section.blocks.append(Drawing("inner", sentence, panels))
    return section


def examples(shown: Sequence[Predictions]) -> Section:
    """The first test examples, predicted against true."""
    section = Section("Examples")
    for number, group in enumerate(_by_problem(shown), start=1):
        run = group[0].run
        sentence = f"{run.problem_name}: {run.kind.view.first(run.settings)}"
        first = [list(range(len(each.examples.error)))[: run.kind.view.count] for each in group]
        section.blocks += _drawn(group, first, f"examples-{number}", sentence)
    sized = [each for each in shown if each.run["data.n"] is not None and each.run["data.d"] is not None]
    points = _largest_iterations(sized)
    if len({(each.run["data.n"], each.run["data.d"]) for each in points}) > 1:
        sentence = (
            "One test set for each size n and dimension d, first two dimensions, each model at its most iterations: "
            "marks that leave their circles show where a model begins to fail as sets grow."
        )
        drawn = grid([(each.run.settings, each.run.name, each.examples) for each in points])
        section.blocks.append(Drawing("grid", sentence, [drawn], wide=True))
    return section


def failures(shown: Sequence[Predictions]) -> Section:
    """The worst examples of each model, and how much of the mean they are."""
    section = Section("Worst failures")
    for number, group in enumerate(_by_problem(shown), start=1):
        run, view = group[0].run, group[0].run.kind.view
        sizes = sorted({len(each.examples.error) for each in group})
        among = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        worst = [each.examples.error.argsort(descending=True)[: view.count].tolist() for each in group]
        section.blocks += [heading(run.problem_name), _tail(group)] if view.has_losses else []
        sentence = f"{run.problem_name}: {view.worst(run.settings, among)}"
        section.blocks += _drawn(group, worst, f"failures-{number}", sentence)
    return section


def _drawn(
    group: Sequence[Predictions], chosen: Sequence[list[int]], name: str, sentence: str
) -> "list[Drawing | str]":
    """Some examples of each of a group, as their task shows them."""
    runs, view = [each.run for each in group], group[0].run.kind.view
    drawn = [
        view.draw(each.examples, which, label(each.run, runs), each.run.settings)
        for each, which in zip(group, chosen, strict=True)
    ]
    if any(isinstance(one, str) for one in drawn):
        return [paragraph(sentence), cards([str(one) for one in drawn])]
    return [Drawing(name, sentence, cast("list[Figure]", drawn), wide=view.wide)]


def _tail(group: Sequence[Predictions]) -> str:
    """How the losses are spread: a few lost sets, or all a little off."""
    runs = [predictions.run for predictions in group]
    rows = []
    for predictions in group:
        error = predictions.examples.error.sort(descending=True).values
        top = max(1, len(error) // 100)
        fraction = float(error[:top].sum() / error.sum())
        numbers = [float(error.mean()), float(error.median()), float(error[0])]
        cells = [cell(label(predictions.run, runs), before=model_key(predictions.run.model))]
        cells += [cell(amount("loss", value), "number") for value in numbers]
        rows.append(f"<tr>{''.join(cells)}{cell(f'{100 * fraction:.0f} %', 'number')}</tr>")
    names = ["mean", "median", "worst", "fraction of the mean held by the worst 1 %"]
    return table(["loss of a set", *names], rows, names)


def _relative(points: Sequence[Average]) -> "list[Figure]":
    """Panels by n, then by d, each preset for itself."""
    panels = []
    for preset in dict.fromkeys(average.run.settings.preset for average in points):
        own = [average for average in points if average.run.settings.preset == preset]
        for fixed in ("data.n", "data.d"):
            sizes = sorted({average.run[fixed] for average in own})
            panels += [relative_losses(own, fixed, size) for size in sizes]
    return [figure for figure in panels if figure is not None]


def _comparable(found: Sequence[Average], task: str) -> list[list[Average]]:
    """Settings of one problem and preset, where there are several."""
    groups: dict[object, list[Average]] = {}
    for average in found:
        if average.run.task == task:
            groups.setdefault((average.run.problem, average.run.settings.preset), []).append(average)
    return [group for group in groups.values() if len(group) > 1]


def _by_problem(shown: Sequence[Predictions]) -> list[list[Predictions]]:
    groups: dict[object, list[Predictions]] = {}
    for predictions in shown:
        groups.setdefault(predictions.run.problem, []).append(predictions)
    return list(groups.values())


def _largest_iterations(shown: Sequence[Predictions]) -> list[Predictions]:
    """One of each model and problem: its run with the most iterations."""
    chosen: dict[object, Predictions] = {}
    for predictions in shown:
        key = (predictions.run.model, predictions.run.problem)
        if key not in chosen or predictions.run["solver.steps"] > chosen[key].run["solver.steps"]:
            chosen[key] = predictions
    return list(chosen.values())


def _beside(groups: Sequence[Sequence[Average]]) -> str:
    known = any(average.published for group in groups for average in group)
    return " Diamonds are the published values." if known else ""


def _steps(run: Run) -> str:
    total = run.settings.optim.steps
    done = run.result.get("steps") or int((run.curve.get("step") or [0])[-1])
    return f"{done:,}" if run.finished else f"{done:,} of {total:,}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def _published(run: Run, paper: Published | None) -> str:
    metric = run.kind.metric
    return "" if paper is None else f"{amount(metric, paper.mean)} ± {amount(metric, paper.std)}"


def _value(name: str, run: Run) -> str:
    if not run.finished:
        return "unfinished" if name == run.kind.metric else ""
    return amount(name, run.metric(name)) if name in run.result["metrics"] else ""

"""The sections of a report, each made from the runs it has something to say about."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .averages import METRICS, Average, Published, averages, published
from .comparisons import accuracies, equal_computation, equal_iterations, precisions, relative_losses
from .curves import accuracy_curves, inner_optimisation, loss_curves
from .evidence import ITERATIONS, Evidence
from .examples import predicted_examples
from .markup import Drawing, Section, cards, cell, heading, model_key, numbered, paragraph, table
from .runs import Run, describe, grouped, label, problem_name, shared_changes
from .scenes import example_scene
from .sets import example_sets, grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 3
"""Examples of a kind."""
SCENE = (
    "Circles are spheres, squares cubes, diamonds cylinders; the map is seen from above, with rings where the objects "
    "are. What is red is wrong: an attribute, a distance above 0.5, an object that is missed or not there."
)


def overview(runs: Sequence[Run]) -> Section:
    """One row a run, the best of each problem in bold."""
    best = {}
    for group in grouped((run for run in runs if run.finished), lambda run: run.problem):
        metric = METRICS[group[0].task]
        values = [run.metric(metric) for run in group if run.metric(metric) == run.metric(metric)]
        if len(group) > 1 and values:
            best[group[0].problem] = min(values) if metric == "loss" else max(values)
    metrics = list(dict.fromkeys(name for run in runs for name in run.result.get("metrics", {})))
    # By another rule, or of single fields; result.json has them.
    metrics = [name for name in metrics if not name.startswith("image_ap") and not name.endswith(" right")]
    known = {id(run): published(run) for run in runs}
    paper = ["published"] if any(known.values()) else []
    names = ["model", "task", "setting", *metrics, *paper, "seed", "steps", "time", "preset"]
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
            judged = name == METRICS[run.task] and run.metric(name) == best.get(run.problem)
            cells.append(cell(_value(name, run), "number", *(["best"] if judged else [])))
        if paper:
            cells.append(cell(_published(run, known[id(run)]), "number"))
        cells += [
            cell(str(run.settings.seed), "number"),
            cell(_steps(run), "number"),
            cell(_duration(_seconds(run)), "number"),
            cell(run.settings.preset),
        ]
        rows.append(f"<tr{'' if run.finished else ' class=unfinished'}>{''.join(cells)}</tr>")
    numbers = ["seed", "steps", "time", *metrics, "published"]
    blocks: list[Drawing | str] = [table(names, rows, numbers)]
    for (task, preset), group in protocols.items():
        if shared := shared_changes(group):
            blocks.append(paragraph(f"All runs of {task}, preset {preset}: {shared}.", quiet=True))
    unfinished = sum(not run.finished for run in runs)
    if unfinished:
        have = "run has" if unfinished == 1 else "runs have"
        blocks.append(paragraph(f"{unfinished} {have} not finished: only the curves so far are shown.", quiet=True))
    return Section("Runs", blocks)


def compared(runs: Sequence[Run]) -> Section:
    """Bar charts where there is something to compare."""
    section = Section("Models compared")
    found = averages(runs)
    if groups := _comparable(found, "numbering"):
        sentence = (
            "Numbering: a set counts only if every element is right, so a model that cannot tell equal elements apart "
            f"stays at zero.{_beside(groups)}"
        )
        section.blocks.append(Drawing("accuracy", sentence, [accuracies(group) for group in groups]))
    if groups := _comparable(found, "autoencoding"):
        sentence = (
            "Autoencoding: lower is better, each dot is a seed. Compare the bars of a group; an iteration of DSPN "
            f"costs about two of iDSPN, so equal computation is the fairer race.{_beside(groups)}"
        )
        both = [figure for group in groups for figure in (equal_iterations(group), equal_computation(group))]
        section.blocks.append(Drawing("losses", sentence, [figure for figure in both if figure is not None]))
        if panels := _relative([average for group in groups for average in group]):
            sentence = (
                "Autoencoding: losses relative to DSPN at its fewest iterations, by set size n and by dimension d. "
                f"Bars below the line beat it; look where the advantage shrinks.{_beside(groups)}"
            )
            section.blocks.append(Drawing("relative", sentence, panels))
    finished = [run for run in runs if run.task == "clevr" and run.finished]
    if finished:
        sentence = (
            "Scenes: the share of objects found with all attributes right, and few false ones, as the distance that "
            "still counts shrinks. How far to the right a line stays up tells how exact the positions are."
        )
        panels = [precisions(group) for group in grouped(finished, lambda run: run.problem)]
        section.blocks.append(Drawing("precision", sentence, panels))
    return section


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
            other = "with other weights" if of_task[0].task == "clevr" else "on cross-entropy"
            sentence += f" (models without a decoder train {other}: compare the shapes, not the heights)"
        section.blocks.append(Drawing(f"learning-{of_task[0].task}", sentence + ".", panels))
    return section


def inner(shown: Sequence[Evidence]) -> Section:
    """The inner optimisation of every model that has one."""
    section = Section("Inner optimisation")
    groups = _by_problem([evidence for evidence in shown if evidence.descent is not None])
    panels = [inner_optimisation(group, what) for group in groups for what in ("objective", "error")]
    if panels:
        count = max(evidence.descent.error.shape[1] for group in groups for evidence in group if evidence.descent)
        sentence = (
            f"Median over {count} test examples; the band holds the middle half. Rings mark the iterations used in "
            f"training; going on to {ITERATIONS} shows whether the set keeps improving, stays, or drifts away while "
            "the objective still falls."
        )
        if any(evidence.run["solver.settle"] for group in groups for evidence in group):
            sentence += " On the way every step has its momentum: a model that settles predicts better than its ring."
        section.blocks.append(Drawing("inner", sentence, panels))
    return section


def examples(shown: Sequence[Evidence]) -> Section:
    """The first test examples, predicted against true."""
    section = Section("Examples")
    for number, group in enumerate(_by_problem(shown), start=1):
        runs = [evidence.run for evidence in group]
        name = f"{runs[0].task.capitalize()}, {problem_name(runs[0])}"
        if runs[0].task == "numbering":
            note = "the first test example: a class of k elements needs each of 0 to k - 1 once; wrong ones are struck."
            section.blocks += [paragraph(f"{name}: {note}"), cards([_numbered(e, 0, runs) for e in group])]
        elif runs[0].task == "clevr":
            sentence = f"{name}: the first test scene. {SCENE}"
            panels = [example_scene(evidence, 0, runs) for evidence in group]
            section.blocks.append(Drawing(f"examples-{number}", sentence, panels, wide=True))
        elif runs[0].task == "folder":
            sentence = f"{name}: the first examples of val.jsonl, and beside each what is predicted for it."
            panels = [predicted_examples(evidence, range(min(2, len(evidence.target))), runs) for evidence in group]
            section.blocks.append(Drawing(f"examples-{number}", sentence, panels, wide=True))
        else:
            sentence = f"{name}: the first test sets{_first_two(runs[0])}. A good prediction sits in its circle."
            panels = [example_sets(evidence, range(min(SHOWN, len(evidence.target))), runs) for evidence in group]
            section.blocks.append(Drawing(f"examples-{number}", sentence, panels))
    points = _largest_iterations([evidence for evidence in shown if evidence.run.task == "autoencoding"])
    if len({(e.run["data.n"], e.run["data.d"]) for e in points}) > 1:
        sentence = (
            "One test set for each size n and dimension d, first two dimensions, each model at its most iterations: "
            "marks that leave their circles show where a model begins to fail as sets grow."
        )
        section.blocks.append(Drawing("grid", sentence, [grid(points)], wide=True))
    return section


def failures(shown: Sequence[Evidence]) -> Section:
    """The worst examples of each model, and how much of the mean they are."""
    section = Section("Worst failures")
    for number, group in enumerate(_by_problem(shown), start=1):
        runs = [evidence.run for evidence in group]
        sizes = sorted({len(evidence.error) for evidence in group})
        count = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        name = f"{runs[0].task.capitalize()}, {problem_name(runs[0])}"
        worst = [evidence.error.argsort(descending=True)[:SHOWN].tolist() for evidence in group]
        if runs[0].task == "numbering":
            note = f"of {count} test sets the one with most wrong numbers; struck numbers are taken or too large."
            made = [_numbered(e, chosen[0], runs) for e, chosen in zip(group, worst, strict=True)]
            section.blocks += [paragraph(f"{name}: {note}"), cards(made)]
        elif runs[0].task == "clevr":
            sentence = f"{name}: the worst of {count} test scenes. {SCENE}"
            panels = [example_scene(evidence, chosen[0], runs) for evidence, chosen in zip(group, worst, strict=True)]
            section.blocks += [heading(name), _tail(group), Drawing(f"failures-{number}", sentence, panels, wide=True)]
        elif runs[0].task == "folder":
            sentence = f"{name}: the two worst of {count} examples of val.jsonl, and beside each what is predicted."
            panels = [predicted_examples(evidence, w[:2], runs) for evidence, w in zip(group, worst, strict=True)]
            section.blocks += [heading(name), _tail(group), Drawing(f"failures-{number}", sentence, panels, wide=True)]
        else:
            section.blocks += [heading(name), _tail(group)]
            sentence = (
                f"The {len(worst[0])} worst of {count} test sets{_first_two(runs[0])}: look whether single elements "
                "are lost or the whole set is blurred."
            )
            panels = [example_sets(evidence, chosen, runs) for evidence, chosen in zip(group, worst, strict=True)]
            section.blocks.append(Drawing(f"failures-{number}", sentence, panels))
    return section


def amount(metric: str, value: float) -> str:
    """A metric as people write it.

    >>> amount("accuracy", 0.968), amount("ap_0.5", 0.8), amount("loss", 0.00057), amount("loss", 0.21)
    ('96.8 %', '80.0 %', '5.7e-04', '0.21')
    """
    if value != value:
        return "NaN"
    if metric in ("accuracy", "score") or "ap_" in metric:
        return f"{100 * value:.1f} %"
    return f"{value:.1e}" if 0 < abs(value) < 0.01 else f"{value:.3g}"


def _tail(group: Sequence[Evidence]) -> str:
    """How the losses are spread: a few lost sets, or all a little off."""
    runs = [evidence.run for evidence in group]
    rows = []
    for evidence in group:
        error = evidence.error.sort(descending=True).values
        top = max(1, len(error) // 100)
        share = float(error[:top].sum() / error.sum())
        numbers = [float(error.mean()), float(error.median()), float(error[0])]
        cells = [cell(label(evidence.run, runs), before=model_key(evidence.run.model))]
        cells += [cell(amount("loss", value), "number") for value in numbers]
        rows.append(f"<tr>{''.join(cells)}{cell(f'{100 * share:.0f} %', 'number')}</tr>")
    names = ["mean", "median", "worst", "share of the mean held by the worst 1 %"]
    return table(["loss of a set", *names], rows, names)


def _numbered(evidence: Evidence, example: int, among: Sequence[Run]) -> str:
    assert evidence.inputs is not None
    wrong, size = int(evidence.error[example]), evidence.inputs.shape[1]
    note = f"{wrong} of {size} wrong" if wrong else f"all {size} right"
    return numbered(label(evidence.run, among), note, evidence.inputs[example], evidence.predicted[example])


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


def _by_problem(shown: Sequence[Evidence]) -> list[list[Evidence]]:
    groups: dict[object, list[Evidence]] = {}
    for evidence in shown:
        groups.setdefault(evidence.run.problem, []).append(evidence)
    return list(groups.values())


def _largest_iterations(shown: Sequence[Evidence]) -> list[Evidence]:
    """One of each model and problem: its run with the most iterations."""
    chosen: dict[object, Evidence] = {}
    for evidence in shown:
        key = (evidence.run.model, evidence.run.problem)
        if key not in chosen or evidence.run["solver.steps"] > chosen[key].run["solver.steps"]:
            chosen[key] = evidence
    return list(chosen.values())


def _first_two(run: Run) -> str:
    return f" (the first two of {run['data.d']} dimensions)" if run["data.d"] > 2 else ""


def _beside(groups: Sequence[Sequence[Average]]) -> str:
    known = any(average.published for group in groups for average in group)
    return " Diamonds are the published values." if known else ""


def _steps(run: Run) -> str:
    total = run.settings.optim.steps
    done = run.result.get("steps") or int((run.curve.get("step") or [0])[-1])
    return f"{done:,}" if run.finished else f"{done:,} of {total:,}"


def _seconds(run: Run) -> float:
    return run.result.get("seconds") or (run.curve.get("seconds") or [0.0])[-1]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def _published(run: Run, paper: Published | None) -> str:
    metric = METRICS[run.task]
    return "" if paper is None else f"{amount(metric, paper.mean)} ± {amount(metric, paper.std)}"


def _value(name: str, run: Run) -> str:
    if not run.finished:
        return "unfinished" if name == METRICS[run.task] else ""
    return amount(name, run.metric(name)) if name in run.result["metrics"] else ""

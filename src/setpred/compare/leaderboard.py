"""The tables of contests: what each model reached and what it costs, as text, as data and as one page."""

import csv
import io
import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch

from ..errors import UsageError
from ..files import replacing
from ..paper.trainings import Run, read_outcome
from ..paper.writers import spread, without_nan
from ..report import report
from ..report.markup import Drawing, Section, cell, model_key, paragraph, table
from ..report.runs import Run as Report
from ..report.runs import read_run
from ..tasks import MODEL_NAMES, find_task, make_experiment
from ..tasks.task import Task
from ..tasks.trivial import trivial_scores
from ..training.run_folder import load_run, read_config
from ..values import read_json
from ..views.style import legend_below, model_style, panel
from .contest import Contest, Entrant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMED = 64
"""Examples in a batch whose prediction is timed."""
MEASURED = "measured.json"


@dataclass
class Row:
    """A model: metrics of each finished seed, and what the first of them costs."""

    model: str
    metrics: dict[str, list[float]] = field(default_factory=dict)
    seeds: int = 0
    finished: int = 0
    examples: int | None = None
    """Training examples seen, mean over seeds."""
    cpu_seconds: float | None = None
    peak_megabytes: int | None = None
    milliseconds: float | None = None
    """Processor time of one prediction, in batches of `TIMED`."""
    parameters: int | None = None
    equivariance: str = ""
    failure: str = ""

    def mean(self, metric: str) -> float:
        return fmean(self.metrics[metric]) if self.metrics.get(metric) else math.nan


@dataclass
class Leaderboard:
    """The rows of a contest, best first; trivial answers stand among them."""

    contest: Contest
    kind: Task
    rows: list[Row]

    @property
    def metrics(self) -> list[str]:
        """The metric that counts, whole sets, those with equal elements, one precision, and the loss."""
        known = dict.fromkeys(name for row in self.rows for name in row.metrics)
        near = [name for name in known if name.startswith("ap_") and name != "ap_inf"]
        chosen = [self.kind.metric, "accuracy", "accuracy_repeats", *near[1:2], "loss"]
        return [name for name in dict.fromkeys(chosen) if name in known]

    def markdown(self) -> str:
        """The table, and what to know of it."""
        names = [*self.metrics, "seeds", "examples seen", "CPU s", "ms/prediction", "MB", "parameters", "equivariance"]
        lines = ["| model | " + " | ".join(names) + " |", "|---|" + "---:|" * (len(names) - 1) + "---|"]
        lines += [f"| {row.model} | " + " | ".join(self.cells(row)) + " |" for row in self.rows]
        notes = [f"{row.model}: {row.failure}." for row in self.rows if row.failure]
        return "\n".join([f"### {self.title}", "", *lines, *(["", *notes] if notes else [])]) + "\n"

    @property
    def title(self) -> str:
        problem = self.kind.problem(self.contest.entrants[0].settings).removeprefix(f"{self.contest.name}, ")
        return f"{self.contest.name}: {problem}; {self.contest.budget:g} s of processor time for each run"

    def cells(self, row: Row) -> list[str]:
        """The cells after the model's name."""
        return [
            *(self._amount(row, name) for name in self.metrics),
            f"{row.finished}/{row.seeds}" if row.seeds else "",
            _or_empty(row.examples, "{:,}"),
            _or_empty(row.cpu_seconds, "{:.0f}"),
            _or_empty(row.milliseconds, "{:.2f}"),
            _or_empty(row.peak_megabytes, "{:,}"),
            _or_empty(row.parameters, "{:,}"),
            row.equivariance,
        ]

    def _amount(self, row: Row, metric: str) -> str:
        values = row.metrics.get(metric)
        if not values:
            return ""
        deviation = stdev(values) if len(values) > 1 else None
        if metric == "loss":
            return spread(fmean(values), deviation, loss=True)
        return spread(100 * fmean(values), None if deviation is None else 100 * deviation, loss=False) + " %"

    def write(self, folder: Path) -> None:
        """The table as Markdown, CSV and JSON, named by the contest."""
        names = ["model", *self.metrics, "seeds", "finished", "examples", "cpu_seconds", "milliseconds"]
        names += ["peak_megabytes", "parameters", "equivariance"]
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(names)
        for row in self.rows:
            facts = asdict(row)
            table.writerow([row.mean(name) if name in self.metrics else facts[name] for name in names])
        facts = {
            "task": self.contest.name,
            "problem": self.title,
            "budget": self.contest.budget,
            "commands": {entrant.name: entrant.runs[0].command for entrant in self.contest.entrants},
            "commits": sorted(self._origins("commit")),
            "hardware": sorted(self._origins("hardware")),
            "rows": [asdict(row) for row in self.rows],
        }
        contents = {
            "md": self.markdown(),
            "csv": text.getvalue(),
            "json": json.dumps(without_nan(facts), indent=2) + "\n",
        }
        for ending, content in contents.items():
            with replacing(folder / f"{self.contest.folder.name}.{ending}") as temporary:
                temporary.write_text(content, encoding="utf-8")

    def _origins(self, name: str) -> set[str]:
        outcomes = (read_outcome(run) for run in self.contest.runs)
        return {str(outcome.result[name]) for outcome in outcomes if outcome.result.get(name)}


def read_leaderboard(contest: Contest) -> Leaderboard:
    """What the finished runs of a contest came to."""
    kind = find_task(contest.entrants[0].settings.task)
    rows = [_row(entrant) for entrant in contest.entrants]
    first = contest.entrants[0].settings
    trivial = _kept(contest.folder / "trivial.json", lambda: trivial_scores(make_experiment(first)), _are_scores)
    rows += [Row(name, {metric: [value] for metric, value in scores.items()}) for name, scores in trivial.items()]
    sign = 1 if kind.lower_is_better else -1
    rows.sort(key=lambda row: (math.isnan(row.mean(kind.metric)), sign * row.mean(kind.metric)))
    return Leaderboard(contest, kind, rows)


def _row(entrant: Entrant) -> Row:
    outcomes = [read_outcome(run) for run in entrant.runs]
    done = [outcome for outcome in outcomes if outcome.status == "finished"]
    row = Row(entrant.name, seeds=len(outcomes), finished=len(done))
    row.failure = next((outcome.reason for outcome in outcomes if outcome.status == "failed"), "")
    if not done:
        return row
    for name in done[0].result["metrics"]:
        values = (outcome.result["metrics"].get(name) for outcome in done)
        row.metrics[name] = [float(value) for value in values if value is not None]
    results = [outcome.result for outcome in done]
    row.examples = round(fmean(result["steps"] * entrant.settings.optim.batch for result in results))
    row.cpu_seconds = fmean(result.get("cpu_seconds") or math.nan for result in results)
    row.peak_megabytes = max(result.get("peak_megabytes") or 0 for result in results)
    folder = done[0].run.folder
    try:
        costs = _kept(folder / MEASURED, lambda: measure(folder), _are_costs)
    except UsageError as error:  # its weights are damaged, its result counts
        row.failure, costs = row.failure or str(error), {}
    row.milliseconds, row.parameters = costs.get("milliseconds"), costs.get("parameters")
    row.equivariance = costs.get("equivariance", "")
    return row


@torch.no_grad()
def measure(folder: Path) -> dict[str, Any]:
    """The time of a prediction of a finished run, its parameters, and which equivariance it has."""
    _, experiment = load_run(folder, {"data.test": min(TIMED, read_config(folder).data.test)})
    batch, best = tuple(t[:TIMED] for t in experiment.split("test")), math.inf
    for _ in range(4):  # the first may compile
        begun = time.process_time()
        experiment.sets(batch)
        best = min(best, time.process_time() - begun)
    try:
        with torch.enable_grad():
            verdict = experiment.double().check().verdict.split(" (")[0]
    except UsageError:
        verdict = "starts from no set"
    count = sum(weight.numel() for weight in experiment.parameters())
    return {"milliseconds": 1000 * best / len(batch[0]), "parameters": count, "equivariance": verdict}


def _kept(path: Path, make: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
    """What a file holds, made where it is missing or damaged."""
    with suppress(OSError, ValueError):
        if fits(kept := read_json(path.read_bytes())):
            return kept
    made = make()
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    return made


def _are_scores(kept: Any) -> bool:
    scores = kept.values() if isinstance(kept, dict) else [None]
    return all(isinstance(each, dict) and all(isinstance(value, float) for value in each.values()) for each in scores)


def _are_costs(kept: Any) -> bool:
    kinds = {"milliseconds": float, "parameters": int, "equivariance": str}
    return isinstance(kept, dict) and all(isinstance(kept.get(name), kind) for name, kind in kinds.items())


def _or_empty(value: Any, form: str) -> str:
    return "" if value is None else form.format(value)


def write_leaderboards(contests: Sequence[Contest], out: Path) -> list[Leaderboard]:
    """Write a table for each contest and a page about all of them into `out`, from the runs that are finished."""
    boards = [read_leaderboard(contest) for contest in contests]
    if not any(row.finished for board in boards for row in board.rows):
        reasons = [row.failure for board in boards for row in board.rows if row.failure]
        raise UsageError(f"no run has finished: {reasons[0] if reasons else 'train them, without --workers 0'}")
    for board in boards:
        board.write(out)
    write_page(boards, out / "compare.html")
    return boards


def _read(run: Run) -> Report | None:
    """A run as a report sees it, unless it has not begun or is damaged, which its row says."""
    with suppress(UsageError):
        return read_run(run.folder)
    return None


def write_page(boards: Sequence[Leaderboard], out: Path) -> Path:
    """Write the page about all runs that have begun, and return where it is."""
    folders = [run.folder for board in boards for run in board.contest.runs if _read(run) is not None]
    first = [partial(section, board) for board in boards]
    return report(folders, out, title="Which model?", first=first)


def section(board: Leaderboard) -> Section:
    """The table of a contest, and how quality grew with time."""
    numbers = ["seeds", "examples seen", "CPU s", "ms/prediction", "MB", "parameters"]
    names = ["model", *board.metrics, *numbers, "equivariance"]
    rows = []
    for row in board.rows:
        cells = board.cells(row)
        shown = [cell(text, "number") for text in cells[:-1]] + [cell(cells[-1])]
        name = cell(
            MODEL_NAMES[row.model].name if row.model in MODEL_NAMES else row.model,
            before=model_key(row.model) if row.seeds else "",
        )
        rows.append(f"<tr>{name}{''.join(shown)}</tr>")
    found = Section(board.contest.name.capitalize(), [paragraph(board.title)])
    found.blocks.append(table(names, rows, [*board.metrics, *numbers]))
    found.blocks += [paragraph(f"{row.model}: {row.failure}", quiet=True) for row in board.rows if row.failure]
    sentence = (
        f"{board.contest.name.capitalize()}: {board.kind.metric} on examples that none learned from against processor "
        "time, mean over seeds. A line that is still rising would gain from a larger budget. The dot is the result: it "
        "leaves its line where a model learns at the end from which score on an element is present."
    )
    found.blocks.append(Drawing(f"time-{board.contest.name}", sentence, [quality_against_time(board)]))
    return found


def quality_against_time(board: Leaderboard) -> "Figure":
    """A line for each model; a point where a task is judged at the end only."""
    figure, axes = panel(width=6.4, height=3.6)
    metric, scale = board.kind.metric, 1 if board.kind.lower_is_better else 100
    for entrant in board.contest.entrants:
        runs = [run for run in map(_read, entrant.runs) if run is not None and run.finished]
        if not runs:
            continue
        colour, dashes = model_style(entrant.name)
        known = ((run.curve.get("cpu_seconds"), run.curve.get(f"val/{metric}")) for run in runs)
        curves = [(seconds, values) for seconds, values in known if seconds and values]
        rounds = min((len(column) for curve in curves for column in curve), default=0)
        times = [fmean(seconds[i] for seconds, _ in curves) for i in range(rounds)]
        means = [scale * fmean(values[i] for _, values in curves) for i in range(rounds)]
        last = (
            fmean(run.result.get("cpu_seconds") or math.nan for run in runs),
            scale * fmean(run.score for run in runs),
        )
        axes.plot([*times, last[0]], [*means, last[1]], color=colour, linestyle=dashes, label=entrant.name)
        axes.plot(*last, "o", color=colour, markersize=4)
    axes.set(xlabel="processor seconds of training", title=f"{metric}{'' if scale == 1 else ', %'}")
    legend_below(figure, axes, columns=4)
    return figure

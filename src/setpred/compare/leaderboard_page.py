"""One self-contained page about contests: the tables first, then quality against time, then what a report has."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..report import report
from ..report.markup import Drawing, Section, cell, model_key, paragraph, table
from ..report.runs import read_run
from ..tasks import MODEL_NAMES
from ..views.style import legend_below, model_style, panel
from .contest import Contest
from .leaderboard import Leaderboard, read_leaderboard

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def write_page(boards: Sequence[Leaderboard], out: Path) -> Path:
    """Write the page about all runs that have begun, and return where it is."""
    folders = [run.folder for board in boards for run in board.contest.runs if (run.folder / "config.yaml").exists()]
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
        runs = [read_run(run.folder) for run in entrant.runs if (run.folder / "result.json").exists()]
        if not runs:
            continue
        colour, dashes = model_style(entrant.name)
        curves = [
            (run.curve["cpu_seconds"], run.curve[f"val/{metric}"]) for run in runs if f"val/{metric}" in run.curve
        ]
        rounds = min((len(values) for _, values in curves), default=0)
        times = [fmean(seconds[i] for seconds, _ in curves) for i in range(rounds)]
        means = [scale * fmean(values[i] for _, values in curves) for i in range(rounds)]
        last = fmean(run.result["cpu_seconds"] for run in runs), scale * fmean(run.score for run in runs)
        axes.plot([*times, last[0]], [*means, last[1]], color=colour, linestyle=dashes, label=entrant.name)
        axes.plot(*last, "o", color=colour, markersize=4)
    axes.set(xlabel="processor seconds of training", title=f"{metric}{'' if scale == 1 else ', %'}")
    legend_below(figure, axes, columns=4)
    return figure

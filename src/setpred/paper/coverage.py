"""How much of the paper stands, and what of it to train next."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from ..errors import UsageError
from .executors import Processes
from .published import find_table
from .reproduce import make_plan
from .scheduler import clock, remaining, run_all
from .tables import BETTER, WITHIN, WORSE, Comparison, Plan, compare
from .trainings import Outcome, Run, read_outcome

UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
TABLES = ("numbering", "autoencoding", "clevr")
Kept = Mapping[tuple[str, str], Mapping[str, Any]]


@dataclass(frozen=True)
class Coverage:
    """Of one table: its published numbers, of how many a run is finished and all seeds are, verdicts, runs, cost.

    `left` is the estimated time of what is not trained yet, in seconds of one run at a time.
    """

    table: str
    published: int
    begun: int
    whole: int
    verdicts: dict[str, int]
    runs: int
    finished: int
    left: float


def run_paper(
    out: Path,
    within: str | None = None,
    workers: int | None = None,
    clevr: str | None = None,
    kept: Path | None = None,
) -> list[Coverage]:
    """Go on with the paper for a while, and say what stands of it; without a time nothing is trained.

    Args:
        out: the folder that holds a folder for each table.
        within: for how long, such as `12h`.
        workers: how many runs at a time.
        clevr: the folder of CLEVR's images, without which its table is left out.
        kept: a folder of tables that `--keep` wrote; their runs count as trained.
    """
    seconds = None if within is None else read_duration(within)
    plans, known = plan_paper(out, clevr), {} if kept is None else read_kept(kept)
    if seconds is not None and workers != 0:
        runs = [run for plan in plans for run in plan.runs if (run.task, run.name) not in known]
        run_all(runs, Processes(workers), seconds)
    return cover(plans, known)


def read_kept(folder: Path) -> Kept:
    """The finished runs of the published protocol in the `table.json` files below a folder, by table and name."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}: give the one that holds what --keep wrote")
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for path in sorted(folder.rglob("table.json")):
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            runs = [run for cell in table["cells"] for run in cell["runs"] if run["status"] == "finished"]
            published = table["protocol"] == "published"
            found |= {(table["table"], run["name"]): run for run in runs if published}
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is not a table that --keep wrote: {str(error)[:100]}") from None
    return found


def plan_paper(out: Path, clevr: str | None = None) -> list[Plan]:
    """Every run of the paper; those on CLEVR's images only if the folder that holds them is given."""
    words = [] if clevr is None else [f"data.source={clevr}"]
    return [make_plan(name, words if name == "clevr" else [], out) for name in TABLES if name != "clevr" or clevr]


def cover(plans: Sequence[Plan], kept: Kept = MappingProxyType({})) -> list[Coverage]:
    """What stands of each table; costs are scaled by what finished runs took."""

    def outcome_of(run: Run) -> Outcome:
        known = kept.get((run.task, run.name))
        return read_outcome(run) if known is None else Outcome(run, "finished", dict(known), final=True)

    comparisons = [compare(plan, outcome_of=outcome_of) for plan in plans]
    ratios = [
        outcome.result["seconds"] / outcome.run.estimate
        for comparison in comparisons
        for outcome in comparison.outcomes
        if outcome.status == "finished" and outcome.run.estimate and outcome.result.get("seconds")
    ]
    speed = median(ratios) if ratios else 1.0
    return [_cover(comparison, speed) for comparison in comparisons]


def _cover(comparison: Comparison, speed: float) -> Coverage:
    rows = [row for row in comparison.rows if row.cell.mean is not None]
    outcomes = comparison.outcomes
    return Coverage(
        comparison.plan.table.name,
        published=len(rows),
        begun=sum(row.mean is not None for row in rows),
        whole=sum(all(o.final for o in row.outcomes) for row in rows),
        verdicts={word: sum(row.verdict == word for row in rows) for word in (BETTER, WITHIN, WORSE)},
        runs=len(outcomes),
        finished=sum(o.final for o in outcomes),
        left=speed * sum(remaining(o.run) for o in outcomes if not o.final),
    )


def markdown(covered: Sequence[Coverage]) -> str:
    """A row for each table, and one for all of them."""
    lines = [
        f"| table | published | with a run | with all seeds | {BETTER} | {WITHIN} | {WORSE} | runs | left |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for c in covered:
        verdicts = " | ".join(str(c.verdicts[word]) for word in (BETTER, WITHIN, WORSE))
        cells = f"{c.table} | {c.published} | {c.begun} | {c.whole} | {verdicts} | {c.finished} of {c.runs:,}"
        lines.append(f"| {cells} | {clock(c.left)} |")
    published, begun = sum(c.published for c in covered), sum(c.begun for c in covered)
    notes = f"{begun} of {published} published numbers have a finished run. `left` is estimated for one run at a time."
    if "clevr" not in {c.table for c in covered}:
        clevr = find_table("clevr")
        more = sum(cell.mean is not None and cell.model in clevr.models for cell in clevr.cells)
        notes += f" Another {more} of CLEVR need its images: --clevr FOLDER."
    return "\n".join([*lines, "", notes, ""])


def read_duration(text: str) -> float:
    """Seconds.

    >>> read_duration("12h"), read_duration("90min"), read_duration("1.5d")
    (43200.0, 5400.0, 129600.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d)", text.strip())
    if found is None:
        raise UsageError(f"--within {text} is not a time: write 12h, 90min or 2d")
    return float(found[1]) * UNITS[found[2]]

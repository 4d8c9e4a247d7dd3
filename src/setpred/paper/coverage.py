"""How much of the paper stands, what of it to train next, and going on with it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from ..errors import UsageError
from ..files import replacing
from ..training.run_folder import check_result
from .executors import Processes, RayCluster, cores
from .reproduce import make_plan
from .scheduler import cheapest_first, clock, remaining, run_all
from .tables import BETTER, WITHIN, WORSE, Comparison, Plan, compare
from .trainings import Outcome, Run, read_outcome, read_progress
from .writers import aligned, keep

UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
TABLES = ("numbering", "autoencoding", "clevr")
HORIZONS = ("12h", "7d", "100d")
"""Times for which it is said how many more cells will stand."""
NEXT = 5
"""How many runs are named that come next."""
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


@dataclass
class Standing:
    """The whole paper as its runs stand.

    Attributes:
        comparisons: of each table.
        known: runs that were trained elsewhere.
        clevr: whether there are CLEVR's images, without which its table cannot be trained.
        workers: how many runs at a time forecasts are for.
    """

    comparisons: Sequence[Comparison]
    known: Kept = field(default_factory=dict)
    clevr: bool = False
    workers: int = 1

    @cached_property
    def coverage(self) -> list[Coverage]:
        return [_cover(comparison, self.speed) for comparison in self.comparisons]

    @cached_property
    def speed(self) -> float:
        """What finished runs of this folder took, as a multiple of what was estimated."""
        here = (o for c in self.comparisons for o in c.outcomes if (o.run.task, o.run.name) not in self.known)
        done = [o for o in here if o.status == "finished" and o.run.estimate and o.result.get("seconds")]
        return median(o.result["seconds"] / o.run.estimate for o in done) if done else 1.0

    @cached_property
    def left(self) -> list[tuple[Run, float]]:
        """What can be trained here, in its order, and about how many seconds each run takes."""
        tables = [c for c in self.comparisons if self.clevr or c.plan.table.name != "clevr"]
        final = {o.run.folder for c in tables for o in c.outcomes if o.final}
        ordered = cheapest_first([run for c in tables for run in c.plan.runs])
        return [(run, self.speed * remaining(run)) for run in ordered if run.folder not in final]

    def forecast(self, seconds: float) -> int:
        """How many more published numbers will have a run after so long."""
        empty = [row for c in self.comparisons for row in c.rows if row.cell.mean is not None and row.mean is None]
        spent, trained = 0.0, set()
        for run, cost in self.left:
            if (spent := spent + cost / self.workers) > seconds:
                break
            trained.add(run.folder)
        return sum(any(o.run.folder in trained for o in row.outcomes) for row in empty)


def run_paper(
    out: Path,
    within: str | None = None,
    workers: int | None = None,
    clevr: str | None = None,
    kept: Path | None = None,
    ray: str | None = None,
) -> Standing:
    """Go on with the paper for a while, and say what stands of it; without a time nothing is trained.

    Args:
        out: the folder that holds a folder for each table.
        within: for how long, such as `12h`.
        workers: how many runs at a time.
        clevr: the folder of CLEVR's images, without which its table is not trained.
        kept: a folder of tables that `--keep` wrote; their runs count as trained.
        ray: the address of a Ray cluster to train on, instead of this machine.
    """
    seconds = None if within is None else read_duration(within)
    plans, known = plan_paper(out, clevr), {} if kept is None else read_kept(kept)
    if seconds is not None and workers != 0:
        runs = [run for plan in plans for run in plan.runs if clevr or plan.table.name != "clevr"]
        elsewhere = {run.folder for run in runs if (run.task, run.name) in known}
        run_all(runs, Processes(workers) if ray is None else RayCluster(ray, workers), seconds, elsewhere)
    return Standing(compare_all(plans, known), known, clevr is not None, workers or cores())


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
            for run in runs:
                run["metrics"] = {name: float(value) for name, value in run["metrics"].items() if value is not None}
                check_result(run)
            found |= {(table["table"], run["name"]): run for run in runs if published}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise UsageError(f"{path} is not a table that --keep wrote: {str(error)[:100]}") from None
    return found


def plan_paper(out: Path, clevr: str | None = None) -> list[Plan]:
    """Every run of the paper; those of CLEVR are on the images in a folder, which need not be there to plan them."""
    return [make_plan(name, [f"data.source={clevr or 'CLEVR'}"] * (name == "clevr"), out) for name in TABLES]


def compare_all(plans: Sequence[Plan], known: Kept = MappingProxyType({})) -> list[Comparison]:
    """Each plan as its run folders stand; of runs that were trained elsewhere, as they were kept."""

    def outcome_of(run: Run) -> Outcome:
        result = known.get((run.task, run.name))
        return read_outcome(run) if result is None else Outcome(run, "finished", dict(result), final=True)

    return [compare(plan, outcome_of=outcome_of) for plan in plans]


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


def markdown(standing: Standing) -> str:
    """What stands of each table and of all, what comes next, and how far some time would go."""
    return "\n\n".join([summary(standing), *_ahead(standing)]) + "\n"


def summary(standing: Standing) -> str:
    """What stands of each table and of all."""
    covered = standing.coverage
    printed = sum(comparison.plan.table.printed for comparison in standing.comparisons)
    total = _total(covered)
    judged = ", ".join(f"{count} {word}" for word, count in total.verdicts.items())
    header = ["table", "published", "with a run", "all seeds", BETTER, WITHIN, WORSE, "runs", "time left"]
    rows = [
        [
            c.table,
            *(str(count) for count in (c.published, c.begun, c.whole, *c.verdicts.values())),
            f"{c.finished:,} of {c.runs:,}",
            clock(c.left),
        ]
        for c in (*covered, total)
    ]
    said = [
        f"{total.begun} of the {printed} published numbers have a finished run: {judged}.",
        aligned(header, rows, numbers=header[1:]),
        f"{printed - total.published} of CLEVR's numbers are not trained: they stand in two tables, are a dash, or are "
        "cited from 2019. A verdict compares our mean with the published mean ± 2 standard deviations. The time left "
        "is estimated for one run at a time." + ("" if standing.clevr else " The table clevr needs --clevr FOLDER."),
    ]
    return "\n\n".join(said)


def keep_paper(standing: Standing, folder: Path) -> list[Path]:
    """Write what stands into a folder: of each table what `keep` writes, `coverage.md` and Figure 1."""
    from ..views.style import style
    from .figure_one import figure_one, missing

    begun = [(c.plan.table.name, c.begun()) for c in standing.comparisons]
    written = [path for name, comparison in begun if comparison.rows for path in keep(comparison, folder / name)]
    autoencoding = next(c for c in standing.comparisons if c.plan.table.name == "autoencoding")
    gone = "; ".join(missing(autoencoding)) or "none"
    with replacing(folder / "coverage.md") as temporary:
        temporary.write_text(f"{markdown(standing)}\nCells that Figure 1 lacks: {gone}.\n", encoding="utf-8")
    with style(), replacing(folder / "figure-1.png") as temporary:
        figure_one(autoencoding).savefig(temporary, format="png", dpi=160)
    return [*written, folder / "coverage.md", folder / "figure-1.png"]


def _ahead(standing: Standing) -> list[str]:
    if not standing.left:
        return ["Nothing is left to train."]
    runs = [f"- {run.task} {run.name}: about {clock(cost)}{_so_far(run)}" for run, cost in standing.left[:NEXT]]
    more = ", ".join(f"{standing.forecast(read_duration(time))} after {time}" for time in HORIZONS)
    at_a_time = "one run at a time" if standing.workers == 1 else f"{standing.workers} runs at a time"
    return [
        "Next, cheapest first:",
        "\n".join(runs),
        f"With {at_a_time}, more numbers will have a run: {more} (`--within` trains for so long).",
    ]


def _so_far(run: Run) -> str:
    step = read_progress(run.folder).step
    return f", goes on after step {step:,} of {run.steps:,}" if step else ""


def _total(covered: Sequence[Coverage]) -> Coverage:
    counts = [
        sum(getattr(c, name) for c in covered) for name in ("published", "begun", "whole", "runs", "finished", "left")
    ]
    published, begun, whole, runs, finished, left = counts
    verdicts = {word: sum(c.verdicts[word] for c in covered) for word in covered[0].verdicts}
    return Coverage("all", published, begun, whole, verdicts, runs, finished, left)


def read_duration(text: str) -> float:
    """Seconds.

    >>> read_duration("12h"), read_duration("90min"), read_duration("1.5d")
    (43200.0, 5400.0, 129600.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d)", text.strip())
    if found is None:
        raise UsageError(f"--within {text} is not a time: write 12h, 90min or 2d")
    return float(found[1]) * UNITS[found[2]]

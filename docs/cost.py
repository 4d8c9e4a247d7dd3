"""What training the published tables again costs, from measured step times: `python docs/cost.py` prints the tables.

Times are those of `results/bench/bench.json`, on its machine of two cores, a run at a time on both of them.
"""

import heapq
import json
from collections.abc import Sequence
from pathlib import Path

from setpred.paper.reproduce import make_plan
from setpred.paper.trainings import Run

BENCH = json.loads((Path(__file__).parent.parent / "results" / "bench" / "bench.json").read_text())
MEASURED = {(row["case"], row["steps"]): row for row in BENCH["training_step"]}
MACHINES = (1, 10, 100)


def between(low: float, high: float, fraction: float) -> float:
    return low + fraction * (high - low)


def step_ms(model: str, case: str, steps: int) -> float:
    """A training step: linear in the iterations, measured at 10 and 40."""
    column = "dspn_ms" if model == "dspn" else "ours_ms"
    return between(MEASURED[case, 10][column], MEASURED[case, 40][column], (steps - 10) / 30)


def autoencoding_ms(model: str, n: int, steps: int) -> float:
    """As measured for n = 2, 8, 16, 32; n = 4 lies a third of the way from 2 to 8."""
    if n == 4:
        return between(autoencoding_ms(model, 2, steps), autoencoding_ms(model, 8, steps), 1 / 3)
    return step_ms(model, f"autoencoding n={n}", steps)


def hours(run: Run) -> float:
    """Of one run; the pooling, the momentum and d change a step too little to count."""
    if run.task == "numbering":
        milliseconds = step_ms(run.model, "numbering n=64", 20)
    else:
        milliseconds = autoencoding_ms(run.model, run.changes["data.n"], run.changes["solver.steps"])
    return run.steps * milliseconds / 3.6e6


def makespan(durations: Sequence[float], machines: int) -> float:
    """When the last run ends, if each machine takes the next one as soon as it is free."""
    free = [0.0] * machines
    for duration in durations:
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def in_words(hours: float) -> str:
    """
    >>> in_words(0.5), in_words(30), in_words(300)
    ('0.5 hours', '30 hours', '12.5 days')
    """
    return f"{hours / 24:.3g} days" if hours > 72 else f"{hours:.2g} hours"


def by_models(runs: Sequence[Run]) -> list[str]:
    """A row a group of models: runs, the shortest, the mean and the longest of them, all together."""
    lines = ["| runs | steps each | shortest | mean | longest | all |", "|---|---|---|---|---|---|"]
    dspn = [run for run in runs if run.model == "dspn"]
    for name, group in (("iDSPN, all kinds", [run for run in runs if run.model != "dspn"]), ("DSPN", dspn)):
        times = [hours(run) for run in group]
        mean = sum(times) / len(times)
        cells = [f"{len(group):,} of {name}", f"{group[0].steps:,}", *map(in_words, (min(times), mean, max(times)))]
        lines.append(f"| {' | '.join(cells)} | {in_words(sum(times))} |")
    return lines


def by_machines(tables: dict[str, Sequence[Run]]) -> list[str]:
    """A row a table, a column a number of machines."""
    head = [f"{count} machine{'s' * (count > 1)}" for count in MACHINES]
    lines = [f"| part | {' | '.join(head)} |", "|---|---|---|---|"]
    for name, runs in tables.items():
        durations = [hours(run) for run in runs]
        lines.append(f"| {name} | {' | '.join(in_words(makespan(durations, count)) for count in MACHINES)} |")
    return lines


def tables() -> str:
    nowhere = Path("runs")
    autoencoding = make_plan("autoencoding", [], nowhere).runs
    numbering = make_plan("numbering", ["classes=4", "model=idspn,dspn"], nowhere).runs
    first = [run for run in autoencoding if run.seed == 0]
    parts = {
        f"autoencoding, all {len(autoencoding):,} runs": autoencoding,
        f"autoencoding, one seed of eight ({len(first)} runs)": first,
        f"numbering, iDSPN and DSPN on 4 classes ({len(numbering)} runs)": numbering,
    }
    return "\n".join([*by_models(autoencoding), "", *by_machines(parts)])


if __name__ == "__main__":
    print(tables())

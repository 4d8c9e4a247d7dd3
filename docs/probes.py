"""Ideas tried on a small autoencoder: `python docs/probes.py` trains each and notes what it gave.

They change the recipe that we began with, which led to the one we recommend; and that one, by taking its ideas away.
What is found goes to `results/beyond/probes.json`; probes that stand there already are not repeated.
"""

import itertools
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import setpred as sp
from setpred.data.synthetic import random_sets
from setpred.tasks import make_experiment, make_settings
from setpred.tasks.autoencoding import BEST
from setpred.tasks.experiment import Batches, Experiment
from setpred.training.run_folder import commit

RESULTS = Path(__file__).parent.parent / "results" / "beyond"
FILE = RESULTS / "probes.json"
ITERATIONS, STEPS, SEEDS = 10, 1_500, (0, 1)
SHOWN, LONGEST = 1_024, 40
SIZE = {"data.n": 4, "data.d": 4, "solver.steps": ITERATIONS, "optim.steps": STEPS}
Change = Callable[[Experiment], None]


def momentum(schedule: Callable[[int], float]) -> Change:
    """Any momentum, as a function of the iteration."""

    def change(experiment: Experiment) -> None:
        experiment.decoder.solver = sp.Nesterov(ITERATIONS, momentum=schedule)

    return change


FIRST_RECIPE = {"solver.settle": True, "optim.schedule": "cosine"}
GROUPS: dict[str, tuple[dict[str, Any], dict[str, dict[str, Any] | Change]]] = {
    "first recipe": (
        FIRST_RECIPE,
        {
            "as it is": {},
            "no plain last step": {"solver.settle": False},
            "two plain last steps": momentum(lambda t: 0.0 if t >= 8 else 0.9),
            "three plain last steps": momentum(lambda t: 0.0 if t >= 7 else 0.9),
            "momentum falling linearly to 0": momentum(lambda t: 0.9 * (1 - t / 9)),
            "momentum rising as t / (t + 3)": momentum(lambda t: 0.0 if t == 9 else t / (t + 3)),
            "momentum 0.7": {"solver.momentum": 0.7},
            "momentum 0.8": {"solver.momentum": 0.8},
            "momentum 0.95": {"solver.momentum": 0.95},
            "half the inner step": {"solver.lr": 0.5},
            "three times the inner step": {"solver.lr": 3.0},
            "constant outer rate": {"optim.schedule": "constant"},
            "outer rate 3e-3": {"optim.lr": 3e-3},
            "conjugate gradient adjoint": {"adjoint": "ConjugateGradient", "adjoint.steps": 3, "adjoint.gamma": None},
            "one encoder for both ends": {"net.shared": True},
            "a random start": {"init": "RandomInit"},
            "a first guess": {"init": "GuessedInit"},
            "a first guess, outer rate 3e-3": {"init": "GuessedInit", "optim.lr": 3e-3},
            "one encoder, outer rate 3e-3": {"net.shared": True, "optim.lr": 3e-3},
            "one encoder, a first guess": {"net.shared": True, "init": "GuessedInit"},
            "one encoder, a first guess, outer rate 3e-3": {
                "net.shared": True,
                "init": "GuessedInit",
                "optim.lr": 3e-3,
            },
        },
    ),
    "recipe": (
        BEST,
        {
            "as it is": {},
            "an encoder for each end": {"net.shared": False},
            "a learned start instead of a guess": {"init": "LearnedInit"},
            "no plain last step": {"solver.settle": False},
            "outer rate 1e-3": {"optim.lr": 1e-3},
            "constant outer rate": {"optim.schedule": "constant"},
        },
    ),
}


def trained(recipe: dict[str, Any], change: dict[str, Any] | Change, seed: int) -> Experiment:
    overrides = SIZE | recipe | (change if isinstance(change, dict) else {})
    settings = make_settings("autoencoding", "idspn", "small", seed, overrides)
    torch.manual_seed(seed)
    experiment = make_experiment(settings)
    if not isinstance(change, dict):
        change(experiment)
    optim = settings.optim
    optimizer = torch.optim.Adam(experiment.parameters(), lr=optim.lr)
    for step, batch in enumerate(Batches(experiment.split("train"), optim.batch, seed, 0, STEPS)):
        if optim.schedule == "cosine":
            optimizer.param_groups[0]["lr"] = optim.lr * 0.5 * (1 + math.cos(math.pi * step / STEPS))
        optimizer.zero_grad()
        experiment.loss(batch).backward()
        optimizer.step()
    return experiment.eval()


@torch.no_grad()
def judged(experiment: Experiment) -> dict[str, Any]:
    """Mean, median and 99th percentile of the error on fresh examples, each started once."""
    experiment.decoder.restart = None
    errors = []
    for sets in random_sets(16_000, 4, 4, seed=2_111_12193).split(1_000):
        found = experiment.decoder.solve(experiment.encoder(sets), steps=ITERATIONS).sets
        errors.append(sp.hungarian_loss(found, sets, cost="huber"))
    error = torch.cat(errors).double()
    figures = {"mean": error.mean(), "median": error.median(), "p99": error.quantile(0.99)}
    return {key: value.item() for key, value in figures.items()}


@torch.no_grad()
def way(experiment: Experiment) -> dict[str, list[float]]:
    """Mean inner loss and error of sets that were allowed so many iterations."""
    sets = random_sets(SHOWN, 4, 4, seed=2_111_12193)
    z = experiment.encoder(sets)
    found = [experiment.decoder.solve(z, steps=steps) for steps in range(1, LONGEST + 1)]
    return {
        "inner": [solution.loss.mean().item() for solution in found],
        "error": [sp.hungarian_loss(solution.sets, sets, cost="huber").mean().item() for solution in found],
    }


def main() -> None:
    torch.set_num_threads(1)
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    RESULTS.mkdir(exist_ok=True)
    for group, (recipe, changes) in GROUPS.items():
        for (name, change), seed in itertools.product(changes.items(), SEEDS):
            runs = known.setdefault(group, {}).setdefault(name, {})
            if str(seed) in runs:
                continue
            begun = time.process_time()
            experiment = trained(recipe, change, seed)
            found = judged(experiment)
            seconds = round(time.process_time() - begun, 1)
            runs[str(seed)] = {**found, "cpu_seconds": seconds, "steps": STEPS, "commit": commit()}
            if seed == 0 and isinstance(change, dict):  # momentum as a function is meant for ITERATIONS alone
                runs["0"]["way"] = way(experiment)
            FILE.write_text(json.dumps(known, indent=1) + "\n")
            print(f"{group}, {name}, seed {seed}: {found['mean']:.1e}", flush=True)


def table(group: str) -> str:
    """What each gave over seeds, the best first."""
    known = json.loads(FILE.read_text())[group]

    def mean(name: str, key: str) -> float:
        runs = known[name].values()
        return sum(run[key] for run in runs) / len(runs)

    heads = ["change", "mean", "median", "99th percentile", "seeds"]
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    for name in sorted(known, key=lambda name: mean(name, "mean")):
        figures = [f"{mean(name, key):.1e}" for key in ("mean", "median", "p99")]
        lines.append(f"| {name} | {' | '.join(figures)} | {len(known[name])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

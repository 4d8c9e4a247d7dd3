"""What the recommended recipe gives beside the published one.

`python docs/beyond.py RUN ...` examines runs of autoencoding on fresh examples and writes what it finds to
`results/beyond/`; without runs it prints the tables of `docs/beyond.md` from there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import setpred as sp
from setpred.data.synthetic import random_sets
from setpred.paper.published import autoencoding
from setpred.tasks.settings import RESTARTED
from setpred.training.module import FITTED
from setpred.training.run_folder import commit, load_run, read_config, read_result

RESULTS = Path(__file__).parent.parent / "results" / "beyond"
SEED, EXAMPLES, SHOWN, LONGEST = 20_261_116, 64_000, 1_024, 40
ORDER = ("paper", "best")
COVERAGES = [fraction / 100 for fraction in range(50, 101)]


class Examined:
    """A trained autoencoder and fresh examples that no run has seen."""

    def __init__(self, run: Path):
        self.settings, self.experiment = load_run(run)
        data, self.decoder = self.settings.data, self.experiment.decoder
        self.sets = random_sets(EXAMPLES, data.n, data.d, SEED)
        self.risk: dict[str, list[float]] = {}

    def restarts(self, iterations: int, settle: bool) -> sp.Restart:
        """Those of the recipe, which a run need not be trained with, for so many iterations."""
        restart = sp.Restart(RESTARTED)
        (sets,) = self.experiment.split("train")
        with restart.fitting():
            self.solve(sets[:FITTED], iterations, settle, restart)
        return restart

    @torch.no_grad()
    def solve(
        self, sets: Tensor, iterations: int, settle: bool, restart: sp.Restart | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of each example: error of its set, inner loss that restarts go by, that of the result, whether restarted."""
        solver = self.settings.solver
        self.decoder.solver = sp.Nesterov(iterations, lr=solver["lr"], momentum=solver["momentum"], settle=settle)
        self.decoder.restart = restart
        parts = []
        for part in sets.split(1_000):
            found = self.decoder.solve(self.experiment.encoder(part))
            error = sp.hungarian_loss(found.sets, part, cost="huber")
            parts.append((error, found.last_loss, found.loss, found.restarted))
        error, last_loss, loss, restarted = (torch.cat(column) for column in zip(*parts, strict=True))
        return error, last_loss, loss, restarted

    def row(self, iterations: int, settle: bool, restart: bool) -> dict[str, Any]:
        rule = self.restarts(iterations, settle) if restart else None
        error, last_loss, _, restarted = self.solve(self.sets, iterations, settle, rule)
        if (iterations, settle, restart) == (self.settings.solver["steps"], True, False):
            self.risk = risk(error.double(), last_loss)
        return {
            "iterations": iterations,
            "settle": settle,
            "restart": restart,
            "spent": iterations * (1 + restarted.double().mean().item()),
            "mean": error.double().mean().item(),
            "median": error.median().item(),
            "p99": error.double().quantile(0.99).item(),
        }

    def way(self, settle: bool) -> dict[str, list[float]]:
        """Inner loss and error of the result against the iterations allowed."""
        found = [self.solve(self.sets[:SHOWN], t, settle, None) for t in range(1, LONGEST + 1)]
        return {
            "inner": [loss.mean().item() for _, _, loss, _ in found],
            "error": [error.mean().item() for error, _, _, _ in found],
            "median": [error.median().item() for error, _, _, _ in found],
        }


def risk(error: Tensor, inner_loss: Tensor) -> dict[str, list[float]]:
    """Mean error of the examples that are kept when those of highest inner loss, or error, are left out."""

    def kept(order: Tensor) -> list[float]:
        sums = error[order].cumsum(0)
        counts = [max(1, round(fraction * len(error))) for fraction in COVERAGES]
        return [(sums[count - 1] / count).item() for count in counts]

    return {"coverage": COVERAGES, "inner loss": kept(inner_loss.argsort()), "oracle": kept(error.argsort())}


def examine(run: Path) -> dict[str, Any]:
    examined = Examined(run)
    settings, result = examined.settings, read_result(run)
    trained, own = settings.solver["steps"], settings.solver["settle"]
    first = settings.seed == 0  # of the others only what their spread is asked for
    drawn = first and settings.data.n == settings.data.d == 4
    fewer = trained * 4 // 5  # with restarts for a quarter, as much work as all iterations for each
    rows = [(trained, False, False)] * (not own) + [(trained, True, False), (fewer, True, True)]
    rows += [(2 * trained, True, False), (2 * fewer, True, True)] * first
    return {
        "preset": settings.preset,
        "n": settings.data.n,
        "d": settings.data.d,
        "seed": settings.seed,
        "steps": settings.optim.steps,
        "trained_at": result["commit"],
        "examined_at": commit(),
        "seconds": result["seconds"],
        "hardware": result["hardware"],
        "examples": EXAMPLES,
        "rows": [examined.row(*row) for row in rows],
        "way": {name: examined.way(settle) for name, settle in (("plain", False), ("settled", True)) if drawn},
        "risk": examined.risk,
    }


def read() -> list[dict[str, Any]]:
    """Everything that was examined, in the order of the page."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*-seed*.json")]
    return sorted(found, key=lambda r: (r["n"], r["d"], ORDER.index(r["preset"]), r["steps"], r["seed"]))


def published(n: int, d: int) -> float:
    where = {"n": n, "d": d, "steps": 10}
    (cell,) = (c for c in autoencoding().cells if c.model == "idspn+momentum" and c.at == where)
    assert cell.mean is not None
    return cell.mean


def table() -> str:
    lines = [
        "| n, d | recipe, seed | steps | iterations | spent | mean | median | 99th percentile | published ÷ mean |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for r in read():
        for row in r["rows"]:
            iterations = f"{row['iterations']}{' settled' * row['settle']}{', restarts' * row['restart']}"
            figures = [f"{row[key]:.1e}" for key in ("mean", "median", "p99")]
            ratio = f"{published(r['n'], r['d']) / row['mean']:.1f}"
            what = [f"{r['n']},{r['d']}", f"{r['preset']}, {r['seed']}", f"{r['steps']:,}", iterations]
            cells = [*what, f"{row['spent']:.2f}", *figures, ratio]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    torch.set_num_threads(1)
    for run in map(Path, sys.argv[1:]):
        if read_config(run).model != "idspn":
            sys.exit(f"{run} is no run of idspn, of which this page is")
        found = examine(run)
        RESULTS.mkdir(exist_ok=True)
        name = "{preset}-n{n}-d{d}-steps{steps}-seed{seed}".format(**found)
        (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(name, flush=True)
    if len(sys.argv) == 1:
        print(table())


if __name__ == "__main__":
    main()

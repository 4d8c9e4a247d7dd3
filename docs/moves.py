"""Other methods to find the sets of a trained autoencoder: `python docs/moves.py RUN` judges each on fresh examples.

All get the work of the iterations that the run was trained with. What is found goes to `results/beyond/moves-*.json`.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import setpred as sp
from setpred.data.synthetic import random_sets
from setpred.inits import fixed_noise
from setpred.tasks.settings import RESTARTED
from setpred.training.module import FITTED
from setpred.training.run_folder import commit, load_run

RESULTS = Path(__file__).parent.parent / "results" / "beyond"
SEED, EXAMPLES = 4_2026, 16_000
Sets = Callable[[Tensor], Tensor]


class Moves:
    """A trained decoder, vectors that it has not seen, and the sets that they stand for."""

    def __init__(self, run: Path, examples: int = EXAMPLES):
        self.settings, experiment = load_run(run)
        data = self.settings.data
        self.decoder, self.steps = experiment.decoder, self.settings.solver["steps"]
        self.decoder.restart = None
        self.sets = random_sets(examples, data.n, data.d, SEED)
        with torch.no_grad():
            self.z = experiment.encoder(self.sets)
            self.usual = experiment.encoder(experiment.split("train")[0][:FITTED])

    def solve(self, z: Tensor, steps: int, init: Tensor | None = None, **solver: Any) -> sp.Solution:
        self.decoder.solver = sp.Nesterov(steps, **{"settle": True, **solver})
        with torch.no_grad():
            return self.decoder.solve(z, init=init)

    def error(self, sets: Tensor) -> float:
        return sp.hungarian_loss(sets, self.sets, cost="huber").double().mean().item()

    def suspects(self, first: sp.Solution, steps: int, fraction: float) -> Tensor:
        return first.last_loss > self.solve(self.usual, steps).last_loss.quantile(1 - fraction)

    def again(self, std: float, from_end: bool) -> float:
        """Four fifths of the iterations for all, as many again for the quarter of the highest inner loss."""
        steps = self.steps * 4 // 5
        first = self.solve(self.z, steps)
        chosen = self.suspects(first, steps, RESTARTED)
        z = self.z[chosen]
        with torch.no_grad():
            start = first.sets[chosen] if from_end else self.decoder.init(len(z), z)
        second = self.solve(z, steps, start + std * fixed_noise(start.shape[1:], 1, start))
        better = second.last_loss < first.last_loss[chosen]
        found = first.sets.clone()
        found[chosen] = torch.where(better[:, None, None], second.sets, first.sets[chosen])
        return self.error(found)

    def longer(self) -> float:
        """One iteration fewer for all, half as many more for a fifth, without a break and with momentum kept."""
        steps, fraction = self.steps - 1, 0.2
        first = self.solve(self.z, steps)
        chosen = self.suspects(first, steps, fraction)
        found = first.sets.clone()
        found[chosen] = self.solve(self.z[chosen], steps + self.steps // 2).sets
        return self.error(found)

    def stepped(self, rule: Callable[[Sets, Tensor, int], Tensor]) -> float:
        """Other rules than Nesterov's, which get the gradient as a function of the sets, and the start."""

        def gradient_at(sets: Tensor) -> Tensor:
            sets = sets.detach().requires_grad_()
            encoded = self.decoder.encoder(sets)
            return torch.autograd.grad(0.5 * (encoded - self.z).square().mean(1).sum(), sets)[0]

        with torch.no_grad():
            start = self.decoder.init(len(self.z), self.z)
        return self.error(rule(gradient_at, start, self.steps))


def anderson(gradient: Sets, sets: Tensor, steps: int, memory: int = 3) -> Tensor:
    """Steps of gradient descent, combined so that their residuals cancel as far as they can."""
    points, residuals = [sets], [-gradient(sets)]
    for _ in range(steps - 1):
        flat = torch.stack([r.flatten(1) for r in residuals[-memory:]], dim=1)  # [batch, memory, size · dim]
        gram = flat @ flat.mT
        scale = gram.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-20)[:, None, None]
        damped = gram / scale + 1e-4 * torch.eye(flat.shape[1])
        weights = torch.linalg.solve(damped, torch.ones(len(flat), flat.shape[1], 1))
        weights = (weights / weights.sum(1, keepdim=True)).unsqueeze(-1)  # [batch, memory, 1, 1]
        moved = torch.stack(points[-memory:], dim=1) + torch.stack(residuals[-memory:], dim=1)
        sets = (weights * moved).sum(1)
        points.append(sets)
        residuals.append(-gradient(sets))
    return sets + residuals[-1]


def barzilai_borwein(gradient: Sets, sets: Tensor, steps: int) -> Tensor:
    """The step length of each example from its last two points; the first step is 1 long."""
    slope = gradient(sets)
    length = torch.ones(len(sets), 1, 1)
    for _ in range(steps - 1):
        moved = sets - length * slope
        next_slope = gradient(moved)
        step, turn = (moved - sets).flatten(1), (next_slope - slope).flatten(1)
        length = (step.square().sum(1) / (step * turn).sum(1).abs().clamp(min=1e-12)).clamp(0.1, 100)[:, None, None]
        sets, slope = moved, next_slope
    return sets - length * slope


def adaptive(gradient: Sets, sets: Tensor, steps: int) -> Tensor:
    """Nesterov's momentum, which an example starts anew where it points uphill; the last step is plain."""
    velocity = torch.zeros_like(sets)
    for t in range(steps):
        slope = gradient(sets)
        uphill = (velocity * slope).flatten(1).sum(1) < 0
        momentum = torch.where(uphill, 0.0, 0.9 if t < steps - 1 else 0.0)[:, None, None]
        velocity = momentum * velocity + slope
        sets = sets - (slope + momentum * velocity)
    return sets


def examine(run: Path) -> dict[str, float]:
    moves = Moves(run)
    z, steps = moves.z, moves.steps
    found = {f"{steps} iterations for all, no restarts": moves.error(moves.solve(z, steps).sets)}
    for from_end, where in ((False, "the first start"), (True, "where it ended")):
        for std in (0.0, 0.1, 0.3, 0.6, 1.0):
            if from_end or std:
                name = f"from {where}, {f'shaken by {std:g}' if std else 'not shaken'}"
                found[name] = moves.again(std, from_end)
    found["more iterations without a break"] = moves.longer()
    found["no plain last step"] = moves.error(moves.solve(z, steps, settle=False).sets)
    for lr in (0.7, 1.5):
        found[f"step {lr:g}"] = moves.error(moves.solve(z, steps, lr=lr).sets)
    found["momentum 0.85"] = moves.error(moves.solve(z, steps, momentum=0.85).sets)
    falling = {"momentum": lambda t: 0.9 * (1 - t / (steps - 1)), "settle": False}
    found["momentum falling linearly to 0"] = moves.error(moves.solve(z, steps, **falling).sets)
    found["Anderson acceleration"] = moves.stepped(anderson)
    found["steps by Barzilai and Borwein"] = moves.stepped(barzilai_borwein)
    found["momentum that starts anew where it points uphill"] = moves.stepped(adaptive)
    return found


def read() -> dict[str, dict[str, Any]]:
    files = sorted(RESULTS.glob("moves-*.json"))
    return {path.stem.removeprefix("moves-"): json.loads(path.read_text(encoding="utf-8")) for path in files}


def table() -> str:
    """One row per method, one column per model."""
    models = read()
    named = [re.sub(r"(.*)-(\d+)-(\d+)", r"(\2, \3), \1", name) for name in models]
    lines = [f"| mean error | {' | '.join(named)} |", "|---|" + "---:|" * len(named)]
    for method in next(iter(models.values()))["error"]:
        figures = [f"{model['error'][method]:.1e}" for model in models.values()]
        lines.append(f"| {method} | {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> None:
    torch.set_num_threads(1)
    for run in map(Path, sys.argv[1:]):
        settings = load_run(run)[0]
        about = {"preset": settings.preset, "steps": settings.optim.steps, "seed": settings.seed}
        found = {**about, "examples": EXAMPLES, "examined_at": commit(), "error": examine(run)}
        path = RESULTS / f"moves-{settings.preset}-{settings.data.n}-{settings.data.d}.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table())


if __name__ == "__main__":
    main()

"""How many of 8 seeds survive what diverges in the paper, with the guard of the decoder and without it.

Autoencoding at a size for two cores, as published and with inner steps that are too long. A seed has survived if every
loss and every weight was finite and the last losses are below those of answering the same examples with zeros: a finite
loss can be as lost. What is refused for NaN ends the training, too. Surviving is not learning: the losses say which it
is.

The paper lost six of eight seeds of DSPN with 40 iterations at n = 2, d = 32, and 111 runs with sum pooling, most of
them with many elements.
"""

from collections import deque
from contextlib import nullcontext
from statistics import mean, median
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from setpred.decoder import SetDecoder, set_norm
from setpred.matching import hungarian_loss
from setpred.solution import Solution
from setpred.tasks import make_experiment, make_settings
from setpred.tasks.experiment import Batches

SIZE = {"net.hidden": 128, "net.latent": 128, "data.test": 1}
BATCH, LAST = 32, 50
DSPN = {"data.n": 2, "data.d": 32, "solver.steps": 40}
SUM = {"data.n": 16, "data.d": 2, "solver.steps": 20}
POINTS = SUM | {"data.smallest": 1, "init": "RandomInit", "init.std": 0.5}
# What is trained: its model, what is changed, training steps.
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "DSPN, 40 iterations": ("dspn", DSPN, 200),
    "DSPN, 40 iterations, step 1000": ("dspn", DSPN | {"solver.lr": 1000.0}, 60),
    "sum pooling": ("idspn-sum", SUM, 600),
    "sum pooling, step 4": ("idspn-sum", SUM | {"solver.lr": 4.0}, 200),
    "sum pooling, step 8": ("idspn-sum", SUM | {"solver.lr": 8.0}, 200),
    "sum pooling, step 8, clip 10": ("idspn-sum", SUM | {"solver.lr": 8.0, "solver.clip": 10.0}, 200),
    "sum pooling, 1 to 16 points": ("idspn-sum", POINTS, 100),
    "FSPool, 1 to 16 points": ("idspn", POINTS, 100),
}


def unguarded(self: Any, problem: Any, start: Any, steps: int, trace: bool, evaluate: bool, finite: Any) -> Solution:
    """What a decoder without the guard gives: whatever came out."""
    from setpred.descent import Descent

    descent = Descent(problem, self.solver, self.constraint, start)
    sets = self.adjoint.run(descent, steps)
    none = torch.zeros_like(finite)
    return Solution(sets, descent.loss, descent.loss, set_norm(descent.grad), descent.clipped, none, none)


def survived(model: str, changes: dict[str, Any], seed: int, steps: int, batch: int = BATCH) -> dict[str, Any]:
    settings = make_settings("autoencoding", model, "paper", seed, {**SIZE, **changes})
    torch.manual_seed(seed)
    experiment = make_experiment(settings)
    optimizer = torch.optim.Adam(experiment.parameters(), lr=settings.optim.lr)
    flagged, losses, zeros = 0.0, deque[float](maxlen=LAST), deque[float](maxlen=LAST)
    for step, examples in enumerate(Batches(experiment.split("train"), batch, seed, 0, steps)):
        torch.manual_seed(step)
        try:
            loss = experiment.loss(examples)
        except ValueError:  # NaN or infinity is refused
            return {"survived": False, "steps": step, "flagged": round(flagged)}
        flagged += batch * float(experiment.diagnostics()["diverged"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        zeros.append(loss_of_zeros(*examples))
        if not all(p.isfinite().all() for p in experiment.parameters()):
            return {"survived": False, "steps": step + 1, "flagged": round(flagged)}
    last = mean(losses)
    alive = last < mean(zeros)
    return {"survived": alive, "steps": steps, "flagged": round(flagged), "loss": float(f"{last:.3g}")}


def loss_of_zeros(sets: Tensor, mask: Tensor | None = None) -> float:
    """Of answering these very examples with zeros."""
    return hungarian_loss(torch.zeros_like(sets), sets, cost="huber", mask=mask).mean().item()


def measure(seeds: int = 8) -> dict[str, Any]:
    """For each case, with the guard and without: survivors, their median loss, and the share of examples flagged."""
    table: dict[str, Any] = {}
    for name, (model, changes, steps) in CASES.items():
        for guard in ("guarded", "not guarded"):
            with nullcontext() if guard == "guarded" else patch.object(SetDecoder, "_rescue", unguarded):
                runs = [survived(model, changes, seed, steps) for seed in range(seeds)]
            alive = [run for run in runs if run["survived"]]
            table[f"{name}, {guard}"] = {
                "survived": len(alive),
                "median loss": round(median(run["loss"] for run in alive), 4) if alive else None,
                "flagged": round(sum(run["flagged"] for run in runs) / (seeds * steps * BATCH), 3),
            }
    return table

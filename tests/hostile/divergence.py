"""How many of 8 seeds survive what diverges in the paper: `python divergence.py OUT.json [STEPS]`.

Autoencoding at a size for two cores, with the guard of the decoder and without it. A seed has survived if every loss
and every weight was finite and the last losses are below that of answering with zeros: a finite loss can be as lost.
What is refused for NaN ends the training, too.

The paper lost six of eight seeds of DSPN with 40 iterations at n = 2, d = 32, and 111 runs with sum pooling, most of
them with many elements. It was lost here once, after 800 steps with sets of different sizes (results/play).
"""

import json
import os
import platform
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from setpred.decoder import SetDecoder, set_norm
from setpred.files import replacing
from setpred.matching import hungarian_loss
from setpred.solution import Solution
from setpred.training.experiment import Batches
from setpred.training.run import commit
from setpred.training.tasks import make_experiment, make_settings

SIZE = {"net.hidden": 128, "net.latent": 128, "data.test": 1}
BATCH, LAST = 32, 50
POINTS = {"data.n": 16, "data.d": 2, "data.smallest": 1, "init.name": "random", "init.std": 0.5, "solver.steps": 20}
MODELS = {
    "DSPN, 40 iterations, (2, 32)": ("dspn", {"data.n": 2, "data.d": 32, "solver.steps": 40}),
    "iDSPN, sum pooling, 1 to 16 points": ("idspn-sum", POINTS),
    "iDSPN, 1 to 16 points": ("idspn", POINTS),
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
    flagged, losses = 0.0, deque[float](maxlen=LAST)
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
        if not all(p.isfinite().all() for p in experiment.parameters()):
            return {"survived": False, "steps": step + 1, "flagged": round(flagged)}
    sets, mask = examples[0], examples[1] if len(examples) > 1 else None
    zeros = hungarian_loss(torch.zeros_like(sets), sets, cost="huber", mask=mask, prediction_mask=mask).mean()
    last = sum(losses) / len(losses)
    return {"survived": last < zeros.item(), "steps": steps, "flagged": round(flagged), "loss": float(f"{last:.3g}")}


def measure(steps: int, seeds: int = 8) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, (model, changes) in MODELS.items():
        for guard in (True, False):
            if guard:
                runs = [survived(model, changes, seed, steps) for seed in range(seeds)]
            else:
                with patch.object(SetDecoder, "_rescue", unguarded):
                    runs = [survived(model, changes, seed, steps) for seed in range(seeds)]
            alive = sum(run["survived"] for run in runs)
            table.setdefault(name, {})["with the guard" if guard else "without"] = {"survived": alive, "seeds": runs}
            print(name, "guard" if guard else "no guard", alive, [run["steps"] for run in runs], file=sys.stderr)
    return table


if __name__ == "__main__":
    out, steps = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200
    started = time.perf_counter()
    table = measure(steps)
    record = {
        "command": f"python tests/hostile/divergence.py {out} {steps}",
        "commit": commit(),
        "seconds": round(time.perf_counter() - started),
        "hardware": f"{os.cpu_count()} cores, {platform.machine()}, {torch.get_num_threads()} threads, shared",
        "setting": {**SIZE, "batch": BATCH, "optimizer": "Adam 1e-3", "steps": steps},
        "changes": MODELS,
        "models": table,
    }
    with replacing(out) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n")

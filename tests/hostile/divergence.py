"""How many of 8 seeds survive what diverges in the paper: `python divergence.py OUT.json [STEPS]`.

Autoencoding as the paper does it, at a size for two cores, with the guard of the decoder and without it. A seed has
survived if after all steps every loss and every weight is finite; what is refused for NaN ends the training, too.
"""

import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from setpred.decoder import SetDecoder, set_norm
from setpred.files import replacing
from setpred.solution import Solution
from setpred.training.experiment import Batches
from setpred.training.run import commit
from setpred.training.tasks import make_experiment, make_settings

SIZE = {"net.hidden": 64, "net.latent": 64, "data.n": 8, "data.d": 8, "data.train": 2_000, "data.test": 1}
MODELS = {
    "DSPN, 40 iterations": ("dspn", {"solver.steps": 40}),
    "iDSPN, sum pooling, 40 iterations": ("idspn-sum", {"solver.steps": 40}),
    "iDSPN, 40 iterations": ("idspn", {"solver.steps": 40}),
}


def unguarded(self: Any, problem: Any, start: Any, steps: int, trace: bool, evaluate: bool, finite: Any) -> Solution:
    """What a decoder without the guard gives: whatever came out."""
    from setpred.descent import Descent

    descent = Descent(problem, self.solver, self.constraint, start)
    sets = self.adjoint.run(descent, steps)
    none = torch.zeros_like(finite)
    return Solution(sets, descent.loss, descent.loss, set_norm(descent.grad), descent.clipped, none, none)


def survived(model: str, changes: dict[str, Any], seed: int, steps: int, batch: int = 16) -> dict[str, Any]:
    settings = make_settings("autoencoding", model, "paper", seed, {**SIZE, **changes})
    torch.manual_seed(seed)
    experiment = make_experiment(settings)
    optimizer = torch.optim.Adam(experiment.parameters(), lr=settings.optim.lr)
    flagged, loss = 0.0, torch.tensor(0.0)
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
        if not all(p.isfinite().all() for p in experiment.parameters()):
            return {"survived": False, "steps": step + 1, "flagged": round(flagged)}
    return {"survived": True, "steps": steps, "flagged": round(flagged), "loss": round(loss.item(), 5)}


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
        "setting": {**SIZE, "batch": 16, "optimizer": "Adam 1e-3", "steps": steps},
        "models": table,
    }
    with replacing(out) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n")

"""What products in bfloat16 do to final losses, by training with and without them.

    python benchmarks/bfloat16_products.py FILE

Where a processor has no bfloat16, its products are imitated: both factors are rounded to bfloat16 and multiplied in
float32, which is what such hardware computes. The losses are then real, the times are not.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from setpred import descent
from setpred.tasks import make_settings
from setpred.training.run import train

CELLS = ((2, 2), (4, 4))
SEEDS = (0, 1, 2)
EXACT = 3
STEPS = 5_000


@contextmanager
def rounded_products() -> Iterator[None]:
    """Inside, matrix products see their factors in bfloat16."""
    product = torch.mm

    def rounded(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
        return product(a.bfloat16().float(), b.bfloat16().float(), out=out)

    with patch.object(torch, "mm", rounded):
        yield


def main(file: Path, runs: Path) -> None:
    torch.set_num_threads(1)
    cells, results = [], []
    for n, d in CELLS:
        found: dict[str, list[float]] = {"float32": [], "bfloat16": []}
        for seed in SEEDS:
            for products, exact in (("float32", None), ("bfloat16", EXACT)):
                changes = {"data.n": n, "data.d": d, "optim.steps": STEPS, "trainer.logger": None}
                settings = make_settings(
                    "autoencoding", "idspn", "small", seed, changes | {"solver.exact_steps": exact}
                )
                out = runs / f"{products}-n{n}-d{d}-seed{seed}"
                with patch.object(descent, "reduced_products", rounded_products):
                    results.append(train(settings, out, resume=out.exists(), quiet=True))
                found[products].append(results[-1]["metrics"]["loss"])
                print(f"n={n} d={d} seed {seed} {products}: {found[products][-1]:.3g}", flush=True)
        cells.append(_row(n, d, found))
    made = {key: sorted({result[key] for result in results}) for key in ("commit", "hardware")}
    seconds = {"seconds": round(sum(result["seconds"] for result in results))}
    about = {"command": f"python benchmarks/bfloat16_products.py {file}", **made, **seconds}
    file.write_text(json.dumps({**about, "cells": cells}, indent=1) + "\n")


def _row(n: int, d: int, found: dict[str, list[float]]) -> dict[str, Any]:
    plain, reduced = found["float32"], found["bfloat16"]
    return {
        "n": n,
        "d": d,
        "steps": STEPS,
        "exact_steps": EXACT,
        "losses": found,
        "mean_ratio": statistics.fmean(reduced) / statistics.fmean(plain),
        "seed_spread": statistics.stdev(plain) / statistics.fmean(plain),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else Path("runs/bfloat16"))

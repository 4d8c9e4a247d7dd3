"""How far an exported model is from PyTorch on 1,000 inputs, by inner iterations.

    python benchmarks/export_parity.py FILE

Beside each error stands PyTorch's own, that of its float32 result against float64. Rounding is amplified where
iterations oscillate, in one as in the other.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from setpred.bench.measure import machine, write
from setpred.data.clevr import CLEVR_SCHEMA
from setpred.decoder import SetDecoder, iDSPN
from setpred.encoders import SetEncoder
from setpred.export.formats import to_onnx
from setpred.image_encoder import ImageEncoder
from setpred.matching import hungarian_loss
from setpred.predictor import SetPredictor
from setpred.schema import Real, Schema
from setpred.solvers import GradientDescent, Nesterov, Solver

ITERATIONS = (1, 5, 10, 20, 40)
TOLERANCE = 1e-4
BATCH = 125


def measure(count: int = 1000, training: int = 600, say: Callable[[str], None] = print) -> dict[str, Any]:
    """The errors of three models: trained with and without momentum, and CLEVR's shape with fresh weights."""
    import onnx
    import onnxruntime

    torch.manual_seed(0)
    began = time.perf_counter()
    models = {
        "points, momentum 0.9": (trained(Nesterov(steps=10), training), torch.randn(count, 8, 4)),
        "points, no momentum": (trained(GradientDescent(steps=10), training), torch.randn(count, 8, 4)),
        "images, untrained": (scenes(), torch.rand(count, 3, 64, 64)),
    }
    rows = []
    for name, (predictor, inputs) in models.items():
        for row in errors(predictor, inputs):
            rows.append({"model": name, **row})
            say(f"{name}: {row}")
    versions = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
    seconds = round(time.perf_counter() - began, 1)
    return {"machine": machine() | versions, "inputs": count, "training": training, "seconds": seconds, "errors": rows}


def trained(solver: Solver, steps: int) -> SetPredictor:
    """An autoencoder of 8 points in 4 dimensions."""
    schema = Schema({"at": Real(4)}, size=8, presence=False)
    decoder = iDSPN(SetEncoder(4, 128, 128, size=8), solver=solver)
    predictor = SetPredictor(SetEncoder(4, 128, 128, size=8), decoder, schema)
    optimizer = torch.optim.Adam(predictor.parameters(), lr=1e-3)
    for _ in range(steps):
        sets = torch.randn(64, 8, 4)
        optimizer.zero_grad()
        hungarian_loss(predictor(sets), sets, cost="huber").mean().backward()
        optimizer.step()
    return predictor.eval()


def scenes() -> SetPredictor:
    """The network of the CLEVR task at 64 pixels, as it starts."""
    size, dim = CLEVR_SCHEMA.size, CLEVR_SCHEMA.dim
    decoder = iDSPN(SetEncoder(dim, 512, 512, size), solver=Nesterov(steps=20, clip=10.0))
    return SetPredictor(ImageEncoder(512, 64), decoder, CLEVR_SCHEMA).eval()


def errors(predictor: SetPredictor, inputs: Tensor) -> list[dict[str, Any]]:
    """For each number of iterations, how far examples are from PyTorch's, each by its worst number."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        session = onnxruntime.InferenceSession(to_onnx(predictor, Path(folder, "model.onnx"), inputs[:1]))
    decoder, exact = _decoder(predictor), deepcopy(predictor).double()
    found: dict[int, list[Tensor]] = {steps: [] for steps in ITERATIONS}
    rounded = deepcopy(found)
    for chunk in inputs.split(BATCH):
        with torch.no_grad():
            z, exact_z = predictor.encode(chunk), exact.encode(chunk)
            start = decoder.init(len(chunk), z).contiguous()
            for steps in ITERATIONS:
                wanted = decoder.solve(z, init=start, steps=steps).sets
                feed = {"input": chunk.numpy(), "start": start.numpy(), "steps": np.array(steps)}
                found[steps].append(_largest(torch.from_numpy(session.run(None, feed)[0]), wanted))
                precise = _decoder(exact).solve(exact_z, init=start.double(), steps=steps).sets
                rounded[steps].append(_largest(precise, wanted))
    return [_row(steps, torch.cat(found[steps]), torch.cat(rounded[steps])) for steps in ITERATIONS]


def _row(steps: int, found: Tensor, rounded: Tensor) -> dict[str, Any]:
    return {
        "iterations": steps,
        "median": found.median().item(),
        "largest": found.max().item(),
        "within 1e-4": (found < TOLERANCE).double().mean().item(),
        "largest of float32 against float64": rounded.max().item(),
        "float32 within 1e-4 of float64": (rounded < TOLERANCE).double().mean().item(),
    }


def _decoder(predictor: SetPredictor) -> SetDecoder:
    assert predictor.decoder is not None
    return predictor.decoder


def _largest(sets: Tensor, others: Tensor) -> Tensor:
    return (sets.double() - others.double()).abs().amax(dim=(1, 2))


if __name__ == "__main__":
    from setpred.training.run_folder import commit

    command = f"python benchmarks/export_parity.py {' '.join(sys.argv[1:])}"
    write({"command": command, "commit": commit(), **measure()}, Path(sys.argv[1]))

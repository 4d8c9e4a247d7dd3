"""The measurements behind results/ that are no part of the package can be made again."""

import json
import runpy
from pathlib import Path

import pytest
import torch

from setpred import GradientDescent

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def test_an_exported_model_is_compared_with_pytorch_by_iterations():
    pytest.importorskip("onnxruntime")
    parity = runpy.run_path(str(BENCHMARKS / "export_parity.py"))
    rows = parity["errors"](parity["trained"](GradientDescent(steps=2), 1), torch.randn(4, 8, 4))
    assert [row["iterations"] for row in rows] == list(parity["ITERATIONS"])
    assert all(row["largest"] < 1e-4 for row in rows)


def test_products_in_bfloat16_are_imitated_and_then_exact_again():
    script = runpy.run_path(str(BENCHMARKS / "bfloat16_products.py"))
    assert callable(script["descent"].reduced_products), "what the script replaces has moved"
    a, b, out = torch.tensor([[1.0 + 2**-12]]), torch.ones(1, 1), torch.empty(1, 1)
    with script["rounded_products"]():
        assert torch.mm(a, b, out=out) == 1.0
    assert torch.mm(a, b, out=out) == a


@pytest.mark.parametrize("design", ["published", "places-sets-first", "one-code", "queries"])
def test_designs_of_image_models_are_trained_and_judged(design, tmp_path):
    script = runpy.run_path(str(BENCHMARKS / "image_parts.py"))
    result = script["train"](tmp_path, design, seed=0, steps=2, count=40, size=48)
    judged = json.loads(result.read_text(encoding="utf-8"))
    assert all(0 <= judged[kind]["ap_inf"] <= 1 for kind in ("proposals", "decoded") if kind in judged)
    assert design in script["table"](tmp_path)


def test_jax_finds_the_same_sets():
    jax = pytest.importorskip("jax", reason="JAX is not installed: it is only needed to compare with it")
    script = runpy.run_path(str(BENCHMARKS / "jax_comparison.py"))
    work = script["Workload"](script["replace"](script["CASES"][4], batch=3, hidden=32))
    start = torch.randn(3, 10, 19)
    found = script["minimise"](script["weights"](work), start.numpy(), work.z.numpy(), 5, 10.0)
    solver = script["Nesterov"](5, clip=10.0)
    with torch.no_grad():
        ours = script["SetDecoder"](work.encoder, solver=solver)(work.z, init=start)
    torch.testing.assert_close(torch.from_numpy(jax.device_get(found).copy()), ours, rtol=1e-3, atol=1e-4)

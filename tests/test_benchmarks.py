"""The measurements behind results/ that are no part of the package can be made again."""

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

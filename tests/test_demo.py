"""The demo shows what the paper is about: equal elements are told apart by iDSPN and by no set-equivariant model."""

import json

import pytest

from setpred.demo import LINES, demo
from setpred.training.verdicts import check_run

SET_EQUIVARIANT = ("deepsets", "transformer")


@pytest.mark.nightly
def test_the_demo_separates_the_models(tmp_path, note):
    page = demo(tmp_path / "demo")
    results = {name: json.loads((tmp_path / "demo" / name / "result.json").read_text()) for name in LINES}
    right = {name: results[name]["metrics"]["accuracy"] for name in LINES if name != "points"}
    note("sets right", right)
    assert right["idspn"] > 0.95
    assert all(right[name] == 0 for name in SET_EQUIVARIANT)
    verdicts = {name: check_run(tmp_path / "demo" / name) for name in ("idspn", "dspn", *SET_EQUIVARIANT)}
    assert all(verdicts[name].exclusive or verdicts[name].exchanging for name in ("idspn", "dspn"))
    assert all(verdicts[name].set_equivariant for name in SET_EQUIVARIANT)
    assert results["points"]["metrics"]["loss"] < 1e-3
    assert "<svg" in page.read_text(encoding="utf-8")

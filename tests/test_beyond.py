"""The page on the recommended recipe says what the examined runs say."""

import runpy
from pathlib import Path

import torch

DOCS = Path(__file__).parent.parent / "docs"


def script(name):
    return runpy.run_path(str(DOCS / f"{name}.py"))


def test_the_tables_of_the_page_follow_from_the_results():
    page = (DOCS / "beyond.md").read_text(encoding="utf-8")
    assert script("beyond")["table"]() in page
    assert script("moves")["table"]() in page
    probes = script("probes")
    assert all(probes["table"](group) in page for group in probes["GROUPS"])


def test_withholding_by_the_error_itself_is_the_best_that_can_be_done():
    error = torch.rand(1000).double()
    risk = script("beyond")["risk"](error, error + torch.rand(1000))
    assert risk["inner loss"][-1] == risk["oracle"][-1]
    assert all(known <= guessed for known, guessed in zip(risk["oracle"], risk["inner loss"], strict=True))
    assert risk["inner loss"][0] < risk["inner loss"][-1]


def test_a_quadratic_is_minimised_by_every_rule_that_is_compared():
    moves = script("moves")
    curvature = torch.tensor([0.2, 0.5, 0.9])
    for rule in ("anderson", "barzilai_borwein", "adaptive"):
        found = moves[rule](lambda sets: curvature * (sets - 1), torch.zeros(4, 2, 3), 40)
        torch.testing.assert_close(found, torch.ones(4, 2, 3), rtol=0, atol=1e-2, msg=rule)

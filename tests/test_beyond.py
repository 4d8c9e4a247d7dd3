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
    probes = script("probes")
    assert all(probes["table"](group) in page for group in probes["GROUPS"])


def test_withholding_by_the_error_itself_is_the_best_that_can_be_done():
    error = torch.rand(1000).double()
    risk = script("beyond")["risk"](error, error + torch.rand(1000))
    assert risk["inner loss"][-1] == risk["oracle"][-1]
    assert all(known <= guessed for known, guessed in zip(risk["oracle"], risk["inner loss"], strict=True))
    assert risk["inner loss"][0] < risk["inner loss"][-1]

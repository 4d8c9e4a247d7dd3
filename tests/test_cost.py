"""The page on what a reproduction costs says what the measurements say."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_tables_of_the_page_follow_from_the_benchmark():
    assert runpy.run_path(str(DOCS / "cost.py"))["tables"]() in (DOCS / "cost.md").read_text()


def test_machines_share_runs_as_they_become_free():
    makespan = runpy.run_path(str(DOCS / "cost.py"))["makespan"]
    assert makespan([3, 1, 1, 1], 1) == 6
    assert makespan([3, 1, 1, 1], 2) == 3
    assert makespan([1, 1, 1, 3], 2) == 4, "a long run that begins late is waited for"
    assert makespan([1, 1], 100) == 1

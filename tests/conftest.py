"""What all tests share: one thread, one seed, and the command line."""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

from trust import note, pytest_addoption, pytest_configure  # noqa: F401

settings.register_profile("setpred", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("setpred")


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def setpred(monkeypatch, capsys, tmp_path):
    """Run a command in an empty folder; gives exit code, output and errors."""
    from setpred.__main__ import main

    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["setpred", *words])
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run

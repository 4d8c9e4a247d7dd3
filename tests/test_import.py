"""Importing the package is quick and pulls in nothing heavy."""

import subprocess
import sys

import setpred

PROBE = """
import sys, time
started = time.perf_counter()
import setpred
seconds = time.perf_counter() - started
import torch  # what remains after torch itself is ours
heavy = {"lightning", "pytorch_lightning", "matplotlib", "gradio", "torchmetrics", "huggingface_hub", "omegaconf", "PIL"}
print(sorted(heavy & set(sys.modules)))
"""


def test_importing_setpred_does_not_import_the_training_stack():
    result = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_everything_public_can_be_imported_and_is_documented():
    for name in setpred.__all__:
        assert getattr(setpred, name).__doc__, name

"""Importing the package is quick and pulls in nothing heavy."""

import subprocess
import sys

import setpred

HEAVY = {"lightning", "torchmetrics", "matplotlib", "gradio", "huggingface_hub", "omegaconf", "PIL", "torch._dynamo"}
PROBE = """
import sys, time
import torch
before, started = set(sys.modules), time.process_time()
import setpred
print(time.process_time() - started, *set(sys.modules) - before)
"""


def test_importing_setpred_adds_little_to_importing_torch():
    result = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    seconds, *modules = result.stdout.split()
    assert not HEAVY & set(modules)
    assert float(seconds) < 0.5


def test_predicting_and_matching_do_not_load_the_compiler_of_torch():
    probe = "import sys, setpred.prediction, setpred.matching; print('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout.strip() == "False"


def test_everything_public_can_be_imported_and_is_documented():
    for name in setpred.__all__:
        assert getattr(setpred, name).__doc__, name

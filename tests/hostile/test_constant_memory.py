"""Predicting from a long file takes no more memory than from a short one."""

import json
import os
import random
import subprocess
import sys

import pytest
from readers import tiny_predictor


def peak_mb(folder, count):
    """The largest memory of a process that predicts from `count` vectors, and how many lines it wrote."""
    rng = random.Random(0)
    inputs, out = folder / f"{count}.jsonl", folder / f"{count}.out"
    with inputs.open("w") as file:
        for i in range(count):
            file.write(json.dumps({"id": i, "vector": [rng.random(), rng.random()]}) + "\n")
    with out.open("wb") as answers:
        words = [sys.executable, "-m", "setpred", "predict", str(folder / "saved"), str(inputs)]
        process = subprocess.Popen(words, stdout=answers, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    with out.open() as answers:
        assert sum(1 for _ in answers) == count
    return usage.ru_maxrss / 1024


@pytest.mark.nightly
def test_predict_takes_constant_memory(tmp_path, tally):
    tiny_predictor().save_pretrained(tmp_path / "saved")
    peaks = {count: round(peak_mb(tmp_path, count), 1) for count in (10_000, 100_000)}
    tally("vectors", list(peaks))
    tally("largest memory in MB", list(peaks.values()))
    assert peaks[100_000] <= 1.05 * peaks[10_000]

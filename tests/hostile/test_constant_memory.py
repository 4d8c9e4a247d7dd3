"""Predicting from a long file takes no more memory than from a short one."""

import json
import random
import subprocess
import sys

import pytest
from readers import tiny_predictor

# The process says it itself: what its parent is told also counts what the parent held before.
PREDICT = """
import sys
from pathlib import Path
from setpred.__main__ import main
try:
    main()
finally:
    sys.stdout.flush()
    print(Path("/proc/self/status").read_text(), file=sys.stderr)
"""


def peak_mb(folder, count):
    """The largest memory of a process that predicts from `count` vectors."""
    rng = random.Random(0)
    inputs, out = folder / f"{count}.jsonl", folder / f"{count}.out"
    with inputs.open("w") as file:
        for i in range(count):
            file.write(json.dumps({"id": i, "vector": [rng.random(), rng.random()]}) + "\n")
    with out.open("wb") as answers:
        words = [sys.executable, "-c", PREDICT, "predict", str(folder / "saved"), str(inputs)]
        done = subprocess.run(words, stdout=answers, stderr=subprocess.PIPE, text=True, check=True)
    with out.open() as answers:
        assert sum(1 for _ in answers) == count
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.nightly
def test_predict_takes_constant_memory(tmp_path, note):
    tiny_predictor().save_pretrained(tmp_path / "saved")
    peaks = {count: round(peak_mb(tmp_path, count), 1) for count in (10_000, 100_000)}
    note("vectors", list(peaks))
    note("largest memory in MB", list(peaks.values()))
    assert peaks[100_000] <= 1.05 * peaks[10_000]

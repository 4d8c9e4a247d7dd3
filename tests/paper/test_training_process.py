"""The process of a run ends with the one that started it, also while it is still importing."""

import subprocess
import sys

from setpred.paper.training_process import PARENT_GONE


def test_a_process_whose_parent_is_gone_ends_before_torch_is_there(tmp_path):
    words = [sys.executable, "-X", "importtime", "-m", "setpred.paper.training_process", str(tmp_path), "{}"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == PARENT_GONE
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "json" in loaded
    assert "torch" not in loaded

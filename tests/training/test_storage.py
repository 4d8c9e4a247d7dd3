"""A disk that is full or read-only costs nothing but the time to make room."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NAMESPACE = ["unshare", "--mount", "--map-root-user"]


def may_mount() -> bool:
    trial = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return shutil.which("unshare") is not None and subprocess.run(trial, capture_output=True).returncode == 0


@pytest.mark.skipif(not may_mount(), reason="this system lets no one mount a small disk to fill (unshare, tmpfs)")
def test_training_on_a_full_or_read_only_disk_says_so_and_goes_on_where_there_is_room(tmp_path, note):
    script = Path(__file__).with_name("full_disk.py")
    command = [*NAMESPACE, sys.executable, str(script), str(tmp_path)]
    ended = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1])

    disk = tmp_path / "disk"
    hint = "make room there, or choose another place"
    assert report["said"] == {
        "full": [2, [f"setpred: {disk}/run/checkpoints/last.ckpt cannot be written (No space left on device): {hint}"]],
        "read-only": [2, [f"setpred: {disk}/run cannot be written (Read-only file system): {hint}"]],
        "read-only, afresh": [
            2,
            [f"setpred: {disk}/other cannot be written (Read-only file system): {hint}"],
        ],
        "room": [0, []],
    }
    assert report["files"] == ["checkpoints/last.ckpt", "config.yaml", "metrics.csv"], "nothing half written is left"
    assert report["checkpoint kept"]
    assert report["same weights"]
    said, left = report["rendered"]
    assert said.endswith(f"images-64.npy cannot be written (No space left on device): {hint}")
    assert left == []
    note("trainings on a full disk, on a read-only disk", [1, 2])

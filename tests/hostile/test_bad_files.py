"""Damaged files are read or refused in a sentence: no other exception, no hang, no more than 1 GB of memory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from readers import READERS

import setpred as sp
from setpred.data.inputs import path_inside
from setpred.errors import UsageError

FUZZ = Path(__file__).with_name("fuzz.py")


def fuzzed(cases: int, seed: int) -> dict[str, Any]:
    words = [sys.executable, str(FUZZ), str(cases), str(seed)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=3000)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("cases", [pytest.param(25, id="few"), pytest.param(900, id="many", marks=pytest.mark.nightly)])
def test_damaged_files_are_read_or_refused(cases, note):
    report = fuzzed(cases, seed=cases)
    wrong = [line for counts in report["readers"].values() for line in counts["wrong"]]
    assert not wrong, "\n".join(wrong)
    note("cases", sum(counts["cases"] for counts in report["readers"].values()))
    note("refused", {name: counts["refused"] for name, counts in report["readers"].items()})
    note("largest memory in MB", report["peak_mb"])


def test_a_configuration_cannot_ask_for_memory(tmp_path):
    READERS["saved model"].write(tmp_path)
    path = tmp_path / "saved" / "config.json"
    config = json.loads(path.read_text())
    for key in ("dim", "hidden", "latent"):
        config["model"]["encoder"][key] = 10**5  # 80 GB of weights
    path.write_text(json.dumps(config))
    with pytest.raises(UsageError, match="does not fit"):
        sp.SetPredictor.from_pretrained(tmp_path / "saved")


@pytest.mark.parametrize("name", ["../secret.png", "/etc/hostname", "link/secret.png", "a/../../secret.png", "a\0b"])
def test_a_data_file_names_nothing_outside_its_folder(name, tmp_path):
    inside, outside = tmp_path / "data", tmp_path / "outside"
    (inside / "a").mkdir(parents=True)
    outside.mkdir()
    for folder in (tmp_path, outside):
        (folder / "secret.png").write_bytes(b"secret")
    (inside / "link").symlink_to(outside)
    with pytest.raises(ValueError, match=r"outside the data folder|not a path"):
        path_inside(inside, name)


@pytest.mark.parametrize("reader", ["JSON lines", "COCO", "CLEVR"])
@pytest.mark.parametrize("name", ["../secret.png", "/etc/hostname", "link.png"])
def test_readers_stay_in_the_data_folder(reader, name, tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    chosen = READERS[reader]
    chosen.write(root)
    (image,) = list(root.rglob("*.png"))[:1]
    image.rename(tmp_path / "secret.png")
    for folder in {path.parent for path in root.rglob("*")} | {image.parent}:
        if name == "link.png":
            (folder / name).symlink_to(tmp_path / "secret.png")
    file = root / chosen.files[0]
    relative = image.name if reader != "JSON lines" else f"img/{image.name}"
    file.write_text(file.read_text().replace(relative, name))
    with pytest.raises(ValueError, match=r"outside|folders|missing"):
        chosen.read(root)

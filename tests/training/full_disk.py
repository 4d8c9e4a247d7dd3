"""Train on a disk that fills up, then on one that is read-only, then on one with room: `python full_disk.py FOLDER`.

Run as the root of a mount namespace of its own, which may mount and unmount. Prints what each command said, as JSON.
"""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from setpred.__main__ import main
from setpred.data.scene_cache import SceneSplit
from setpred.errors import UsageError

SETTINGS = {
    "data.n": 2,
    "data.d": 2,
    "data.train": 64,
    "data.test": 16,
    "net.hidden": 16,
    "net.latent": 16,
    "optim.batch": 8,
    "optim.steps": 12,
    "trainer.round": 3,
    "trainer.logger": "none",
}


def train(out: Path, *options: str) -> tuple[int, str]:
    """Exit code and errors of the command, in a process of its own."""
    words = [f"{key}={value}" for key, value in SETTINGS.items()]
    sys.argv = ["setpred", "train", "autoencoding", *words, "--preset", "quick", "--out", str(out), *options]
    heard, speaker = os.pipe()
    if not (pid := os.fork()):
        errors, code = io.StringIO(), 0
        with redirect_stderr(errors), redirect_stdout(io.StringIO()):
            try:
                main()
            except SystemExit as exit_:
                code = int(exit_.code or 0)
        os.write(speaker, errors.getvalue()[-4000:].encode())
        os._exit(code)
    os.close(speaker)
    with open(heard) as file:
        text = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def render(cache: Path) -> str:
    """What is said where rendered scenes do not fit."""
    os.environ["SETPRED_CACHE"] = str(cache)
    try:
        SceneSplit("scenes", "train", count=64, size=64).images()
    except UsageError as error:
        return str(error)
    return "rendered"


def mount(*options: str) -> None:
    subprocess.run(["mount", *options], check=True)


def spoken(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("setpred:") or "Traceback" in line]


if __name__ == "__main__":
    root = Path(sys.argv[1])
    whole, disk = root / "whole", root / "disk"
    code, _ = train(whole)
    assert code == 0
    disk.mkdir()
    size = (whole / "checkpoints" / "last.ckpt").stat().st_size
    mount("-t", "tmpfs", "-o", f"size={int(1.5 * size) + 16_384}", "tmpfs", str(disk))
    run = disk / "run"
    report = {"full": train(run)}
    kept = (run / "checkpoints" / "last.ckpt").read_bytes()
    files = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    mount("-o", "remount,ro", str(disk))
    report["read-only"] = train(run, "--resume")
    report["read-only, afresh"] = train(disk / "other")
    same = (run / "checkpoints" / "last.ckpt").read_bytes() == kept
    mount("-o", f"remount,rw,size={20 * size}", str(disk))
    report["room"] = train(run, "--resume")
    cache = root / "cache"
    cache.mkdir()
    mount("-t", "tmpfs", "-o", "size=300k", "tmpfs", str(cache))
    rendered = render(cache)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (whole, run)]
    said = {name: [code, spoken(text)] for name, (code, text) in report.items()}
    left = [str(path) for path in cache.rglob("*") if path.is_file()]
    kept = {"files": files, "checkpoint kept": same, "same weights": weights[0] == weights[1]}
    print(json.dumps({"said": said, **kept, "rendered": [rendered, left]}))

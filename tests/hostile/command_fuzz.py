"""Whole commands on damaged runs, models and inputs: `python command_fuzz.py CASES SEED [SUBJECT ...]`.

A JSON report comes out.

In one process through the way in of the command line, so that thousands of them take minutes, and in a process of its
own, because its memory is limited to a gigabyte more than the sound commands left it with.
"""

import io
import json
import random
import shutil
import signal
import sys
import tempfile
import traceback
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from damaged_runs import SUBJECTS, Subject, damage
from fuzz import Hang, limit_memory, peak_memory

from setpred.__main__ import main as setpred

SECONDS = 60.0  # of the processor: a case takes milliseconds, an export seconds
LONGEST = 6_000
"""So many characters has the longest refusal: twenty problems of data, a line each."""


def run(words: list[str]) -> str:
    """What came of a command: `done` or `refused`, anything else is wrong."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["setpred", *words]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            try:
                setpred()
                code: Any = 0
            except SystemExit as exit_:
                code = exit_.code or 0
    except (Exception, Hang) as error:
        return _described(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    said = err.getvalue()
    if code == 2:
        last = said[said.rfind("\nsetpred: ") + 1 :]
        fine = last.startswith("setpred: ") and " " in last[9:].strip() and len(last) < LONGEST
        return "refused" if fine and "Traceback" not in said else f"refused with {said[-300:]!r}"
    if code != 0:
        return f"exit {code}: {said[-300:]!r}"
    try:
        printed = out.getvalue().encode().decode()
        if words[0] == "predict" or "--json" in words:
            for line in printed.splitlines():
                json.loads(line, parse_constant=_no_json)
    except ValueError as error:
        return f"printed {out.getvalue()[-300:]!r} ({error})"
    return "done"


def _no_json(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _described(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/setpred/" in frame.filename] or frames
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in [frames[-1], *ours[:-4:-1]])
    return f"{type(error).__name__}: {str(error)[:200]} ({places})"


def fuzz(cases: int, seed: int, names: list[str]) -> dict[str, Any]:
    """How many commands were done and refused, each by its name, and what went wrong in the others."""
    counts: dict[str, Any] = {"done": {}, "refused": {}, "wrong": []}
    subjects = [subject for subject in SUBJECTS if subject.name in names or not names]
    with tempfile.TemporaryDirectory() as made, chdir(made):
        sound = {}
        for subject in subjects:
            folder = Path(made) / "case"  # where the damaged copies will be, too, because runs name their data
            folder.mkdir()
            with chdir(folder):
                subject.write(folder)
                for words in subject.commands:
                    outcome = run(words)
                    assert outcome == "done", f"{subject.name}, sound: {words}: {outcome}"
                    shutil.rmtree("out", ignore_errors=True)
            sound[subject.name] = folder.rename(Path(made) / subject.name)
        limit_memory()  # now: what sound files take is no damage
        for number in range(cases):
            rng = random.Random(f"{seed} {number}")
            torch.manual_seed(number)
            subject = rng.choice(subjects)
            words, what = _case(subject, sound[subject.name], Path(made) / "case", rng)
            with chdir(Path(made) / "case"):
                outcome = run(words)
            if outcome in ("done", "refused"):
                counts[outcome][words[0]] = counts[outcome].get(words[0], 0) + 1
            else:
                counts["wrong"].append(f"seed {seed}, case {number}: {' '.join(words)} with {what}: {outcome}")
    return counts


def _case(subject: Subject, sound: Path, folder: Path, rng: random.Random) -> tuple[list[str], str]:
    """A copy of the sound files with one or two of them damaged, the command to try, and what was damaged."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound, folder)
    words = rng.choices(subject.commands, subject.weights)[0]
    # Mostly what the command reads: a damaged input says nothing about `check`.
    files = [file for file in subject.files if words[0] == "predict" or not file.startswith("inputs")]
    damaged = sorted({rng.choice(files) for _ in range(rng.choice((1, 1, 2)))})
    what = [damage(folder / file, rng) for file in damaged]
    return words, " and ".join(f"{file} ({how})" for file, how in zip(damaged, what, strict=True))


def main(cases: int, seed: int, names: list[str]) -> None:
    def hang(*_: Any) -> None:
        raise Hang("took too long")

    signal.signal(signal.SIGPROF, hang)
    counts = fuzz(cases, seed, names)
    print(json.dumps(counts | {"peak_mb": peak_memory()}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])

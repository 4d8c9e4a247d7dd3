"""Read damaged files until the cases are used up: `python fuzz.py CASES SEED [READER ...]`, a JSON report comes out.

In a process of its own, because memory is limited for the whole of it.
"""

import json
import linecache
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from mutations import mutate
from readers import READERS, Reader

import setpred

SECONDS = 20.0  # a case takes milliseconds; the machine may be busy
MEMORY = 1 << 30
HOME = str(Path(setpred.__file__).parent)


class Hang(BaseException):
    """Not an Exception, so that no reader takes it for damage."""


def fuzz(name: str, cases: int, seed: int) -> dict[str, Any]:
    """How many cases were read and refused, and what went wrong in the others."""
    reader = READERS[name]
    counts: dict[str, Any] = {"cases": 0, "read": 0, "refused": 0, "wrong": []}
    with tempfile.TemporaryDirectory() as made:
        sound = Path(made) / "sound"
        sound.mkdir()
        reader.write(sound)
        originals = {file: (sound / file).read_bytes() for file in reader.files}
        reader.read(sound)  # it can be read, or nothing is tested below
        for number in range(cases):
            rng = random.Random(f"{name} {seed} {number}")
            file = rng.choice(reader.files)
            shutil.rmtree(sound / "out", ignore_errors=True)
            for other, content in originals.items():
                (sound / other).write_bytes(content)
            (sound / file).write_bytes(mutate(originals[file], rng))
            counts["cases"] += 1
            outcome = _read(reader, sound)
            if outcome in ("read", "refused"):
                counts[outcome] += 1
            else:
                counts["wrong"].append(f"{name}, seed {seed}, case {number} ({file}): {outcome}")
    return counts


def _read(reader: Reader, folder: Path) -> str:
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        reader.read(folder)
        return "read"
    except ValueError as error:
        return "refused" if is_ours(error) else _described(error)
    except (Exception, Hang) as error:
        return _described(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def is_ours(error: BaseException) -> bool:
    """Whether a `raise` of setpred says it, in words for a person."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    raised = linecache.getline(last.filename, last.lineno or 0).strip().startswith("raise ")
    text = str(error)
    return last.filename.startswith(HOME) and raised and " " in text and len(text) < 5_000


def _described(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:200]} ({Path(last.filename).name}:{last.lineno})"


def _hang(*_: Any) -> None:
    raise Hang("took too long")


def limit_memory() -> None:
    """Hold the address space of this process to what it has now and `MEMORY` more."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def peak_memory() -> int:
    """In MB; not from getrusage, which also counts what the parent held before."""
    status = Path("/proc/self/status").read_text() if sys.platform == "linux" else "VmHWM: 0"
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def main(cases: int, seed: int, names: list[str]) -> None:
    signal.signal(signal.SIGALRM, _hang)
    limit_memory()
    report = {name: fuzz(name, cases, seed) for name in names or READERS}
    print(json.dumps({"readers": report, "peak_mb": peak_memory()}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])

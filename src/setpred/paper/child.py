"""The process that trains one run of a table: `python -m setpred.paper.child FOLDER SETTINGS`.

Its standard input is a pipe whose other end only the parent holds. When the parent ends, however it ends, the pipe
closes and so does this process; what is lost is the round under way.
"""

import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

PARENT_GONE = 3
DIVERGED = 4


def main(folder: Path, order: dict[str, Any]) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()

    from ..training.run import train
    from ..training.tasks import make_settings
    from .outcomes import record_failure

    (folder / "failure.json").unlink(missing_ok=True)
    for left_by_a_killed_process in folder.rglob(".*.tmp"):
        left_by_a_killed_process.unlink(missing_ok=True)
    threading.Thread(target=_end_when_diverged, args=(folder,), daemon=True).start()
    try:
        train(make_settings(**order), folder, resume=True, quiet=True)
    except Exception as error:
        traceback.print_exc()
        lines = str(error).splitlines() or [""]
        record_failure(folder, f"{type(error).__name__}: {lines[0]}", diverged=False)
        return 1
    return 0


def _end_with_parent() -> None:
    # os.read, not sys.stdin: a thread that waits inside a buffered reader would hold its lock when Python ends.
    os.read(0, 1)
    os._exit(PARENT_GONE)


def _end_when_diverged(folder: Path, seconds: float = 2.0) -> None:
    from .outcomes import has_diverged, read_progress, record_failure

    last, seen = folder / "checkpoints" / "last.ckpt", 0
    while True:
        time.sleep(seconds)
        written = last.stat().st_mtime_ns if last.exists() else 0
        if written == seen:
            continue
        seen = written
        if has_diverged(folder):
            record_failure(folder, f"diverged by step {read_progress(folder).step}: the weights are NaN", diverged=True)
            os._exit(DIVERGED)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(sys.argv[2])))

"""The process of one run: `python -m setpred.paper.training_process FOLDER SETTINGS`.

Its standard input is a pipe whose other end only the parent holds. When the parent ends, however it ends, the pipe
closes and so does the process; what is lost is the round under way. Nothing large is imported before that is looked
after: the process holds the lock of its run, and a parent that was killed meanwhile would leave it locked for seconds.
"""

import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

PARENT_GONE = 3


def train_one(folder: Path, order: dict[str, Any]) -> int:
    """Train the run until it is finished or fails, or the parent is gone."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from ..tasks import make_settings
    from ..training.run import train
    from .trainings import record_failure

    (folder / "failure.json").unlink(missing_ok=True)
    settings = make_settings(**order)
    try:
        train(settings, folder, resume=True, quiet=True, held=True)
    except Exception as error:
        traceback.print_exc()
        record_failure(folder, settings, error)
        return 1
    return 0


def _end_with_parent() -> None:
    # os.read, not sys.stdin: a thread that waits inside a buffered reader would hold its lock when Python ends.
    os.read(0, 1)
    os._exit(PARENT_GONE)


if __name__ == "__main__":
    sys.exit(train_one(Path(sys.argv[1]), json.loads(sys.argv[2])))

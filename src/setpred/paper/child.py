"""The process that trains one run of a table: `python -m setpred.paper.child FOLDER SETTINGS`.

Its standard input is a pipe whose other end only the parent holds. When the parent ends, however it ends, the pipe
closes and so does this process; what is lost is the round under way.
"""

import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

PARENT_GONE = 3


def main(folder: Path, order: dict[str, Any]) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()

    from ..training.run import train
    from ..training.tasks import make_settings
    from .outcomes import record_failure

    (folder / "failure.json").unlink(missing_ok=True)
    settings = make_settings(**order)
    try:
        train(settings, folder, resume=True, quiet=True)
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
    sys.exit(main(Path(sys.argv[1]), json.loads(sys.argv[2])))

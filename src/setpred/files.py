"""Files that are whole or not there."""

import os
from pathlib import Path
from typing import Any


class replacing:
    """Write beside a file and put the result in its place at once, so that no reader ever sees half of it."""

    def __init__(self, path: Path):
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")

    def __enter__(self) -> Path:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.temporary

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is None and self.temporary.exists():
            with self.temporary.open("rb") as file:
                os.fsync(file.fileno())
            self.temporary.replace(self.path)
        else:
            self.temporary.unlink(missing_ok=True)

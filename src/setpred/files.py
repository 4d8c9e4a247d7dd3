"""Files that are whole or not there, and where those go that can be made again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import UsageError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write beside a file and put the result in its place at once, so that no reader ever sees half of it.

    A full disk, or a folder that may not be written to, is an error of one line; what was there before stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.filename is not None and Path(error.filename) not in (temporary, *path.parents):
            raise
        raise UsageError(
            f"{path} cannot be written ({error.strerror}): make room there, or choose another place"
        ) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def remove_remains(folder: Path) -> None:
    """Delete what killed processes left of files they were writing in a folder or one level below."""
    for temporary in [*folder.glob(".*.[0-9]*.tmp"), *folder.glob("*/.*.[0-9]*.tmp")]:
        with suppress(OSError):
            temporary.unlink()


def cache_folder() -> Path:
    """`SETPRED_CACHE`, or `setpred` where the user's caches are."""
    usual = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("SETPRED_CACHE") or Path(usual) / "setpred")

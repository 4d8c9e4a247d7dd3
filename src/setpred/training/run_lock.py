"""One training at a time in a run folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import UsageError

try:
    import fcntl
except ModuleNotFoundError:  # Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


class RunLockedError(UsageError):
    """Another process trains into the folder."""


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Hold a folder, or raise `RunLockedError` where another process holds it. Gives the file that the lock is on.

    The system ends the lock with the last process that has this file open, however that process ends. So a file that a
    killed process left is not locked.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     with locked(Path(name)):
    ...         try:
    ...             with locked(Path(name)):
    ...                 pass
    ...         except RunLockedError as error:
    ...             print(str(error).removeprefix(name).replace(str(os.getpid()), "1234"))
     is being trained by process 1234: wait for its end, or choose another --out
    """
    file = _lock(folder)
    name_holder(file, os.getpid())
    try:
        yield file
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink()  # first: who opens it in between finds it deleted and makes another one
        os.close(file)


@contextmanager
def locked_for_a_child(folder: Path) -> Iterator[int]:
    """As `locked`, but what is held stays held by a child that inherits the file."""
    file = _lock(folder)
    try:
        yield file
    finally:
        os.close(file)


def refuse_locked(folder: Path) -> None:
    """Raise `RunLockedError` where another process holds a folder, and remove what a killed one left."""
    if (folder / LOCK).exists():
        with locked(folder):
            pass


def name_holder(file: int, process: int) -> None:
    """Write into the file of a lock who holds it, for people who ask."""
    with suppress(OSError):  # a full disk
        os.ftruncate(file, 0)
        os.pwrite(file, f"{process}\n".encode(), 0)


def _lock(folder: Path) -> int:
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UsageError(
                f"{folder} cannot be written ({error.strerror}): make room there, or choose another place"
            ) from None
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode("ascii", "replace").strip()
            os.close(file)
            raise RunLockedError(
                f"{folder} is being trained by {f'process {holder}' if holder.isdigit() else 'another process'}: "
                "wait for its end, or choose another --out"
            ) from None
        if os.fstat(file).st_nlink:
            return file
        os.close(file)  # its holder has just ended, and deleted it

"""`setpred` and `python -m setpred` are the command line."""

import errno
import io
import os
import sys
import warnings
from typing import NoReturn

from .errors import UsageError

REFUSALS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
)
"""Errors of the system that a person can do something about."""
INTERRUPTED = 130
"""The exit code of a program that was stopped with Ctrl+C."""


def main() -> None:
    """Run the command line; a wrong request is one line and exit code 2."""
    warnings.formatwarning = lambda message, *_: f"setpred: {message}\n"  # one line, as errors are
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a screen that lacks a character shows its number
            stream.reconfigure(errors="backslashreplace")
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # torch's idle threads yield their core to the inner loop's
    try:
        from .cli import app
    except ModuleNotFoundError as error:  # the bare package is a library
        _refuse(f"the command line needs {error.name}: pip install 'setpred[train]'")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    try:
        app()
    except UsageError as error:
        _refuse(str(error))
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        _refuse(f"{error.filename or 'a file'} cannot be used ({error.strerror})")


def _refuse(reason: str) -> NoReturn:
    print(f"setpred: {reason}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()

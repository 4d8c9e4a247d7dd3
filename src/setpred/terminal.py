"""What a person sees at a terminal around a command: examples in its help, and a line while PyTorch loads."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

CLEAR_LINE = "\r\x1b[K"


def examples(*lines: str) -> str:
    """The end of a help text: one command per line, which can be copied."""
    return "\n\n".join(["**Examples**", *(f"- `{line}`" for line in lines)])  # typer joins what one line break parts


@contextmanager
def loading(what: str = "PyTorch") -> Iterator[None]:
    """Say at once what takes seconds to import, and take the line back afterwards.

    Only a terminal gets the line: errors in a file or a pipe stay one line each.
    """
    shown = sys.stderr.isatty()
    if shown:
        print(f"loading {what} …", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)

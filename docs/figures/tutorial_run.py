"""The tutorial's own code, run once, for the pictures of what it found."""

import contextlib
import io
import re
from functools import cache
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "tutorial.md"
LAST = 'print(f"model {error'
"""The pictures need nothing that comes after this line."""


@cache
def tutorial() -> dict[str, Any]:
    """The names that the blocks of the page define, up to the trained model and its test examples."""
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(block, names)
        if LAST in block:
            return names
    raise ValueError(f"{PAGE} has no block with {LAST!r}: say where the pictures stop")

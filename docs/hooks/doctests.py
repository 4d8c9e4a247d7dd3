"""Examples in docstrings are shown as sessions: Markdown by itself would take `>>>` for quotations."""

import re
import textwrap
from typing import Any

import griffe

SESSION = re.compile(r"^( *)>>> .*?(?=\n *\n|\Z)", flags=re.M | re.S)


class FencedDoctests(griffe.Extension):
    """Puts a fence around every doctest."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = SESSION.sub(_fenced, obj.docstring.value)


def _fenced(session: re.Match[str]) -> str:
    block = f"```pycon\n{textwrap.dedent(session[0])}\n```"
    return textwrap.indent(block, session[1])

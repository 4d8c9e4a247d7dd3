"""Code on a page is the code of the example itself.

A paragraph `[examples/NAME.py: function](../../examples/NAME.py)`, elsewhere a plain link, becomes the function.
"""

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parent.parent.parent
EXCERPT = re.compile(r"^\[(examples/\w+\.py): (\w+)\]\([./]*\1\)$", flags=re.M)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace every link to a function."""
    return EXCERPT.sub(lambda link: f"```python\n{source(link[1], link[2])}\n```", markdown)


def source(path: str, name: str) -> str:
    """The text of a function."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return "\n".join(text.splitlines()[start - 1 : node.end_lineno])
    raise PluginError(f"{path} has no function {name}: correct the link")

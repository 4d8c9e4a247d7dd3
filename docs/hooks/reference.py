"""The reference names everything public: `::: setpred.solvers.*` stands for what its page does not name itself.

A part that is listed in `__init__.pyi` is in the reference then, one heading below the heading that it stands under.
"""

import re
from typing import Any

import setpred

REST = re.compile(r"^::: setpred\.([\w.]+)\.\*$", flags=re.M)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace every `*` by the public names of its module or room, in the order of the alphabet."""
    named = set(re.findall(r"^::: setpred\.(\w+)$", markdown, flags=re.M))
    return REST.sub(lambda line: _blocks(markdown[: line.start()], line[1], named), markdown)


def _blocks(before: str, room: str, named: set[str]) -> str:
    level = len(re.findall(r"^(#+) ", before, flags=re.M)[-1]) + 1
    return "\n\n".join(
        f"::: setpred.{name}\n    options: {{ heading_level: {level}, members: [] }}"
        for name, module in sorted(setpred.PUBLIC.items())
        if f"{module}.".startswith(f".{room}.") and name not in named
    )

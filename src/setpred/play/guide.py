"""The guide to the playground, docs/playground.md, as a page that needs no network."""

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

HERE = Path(__file__).parent
# Beside this file where the package is installed, in docs/ where it is worked on.
PLACES = (HERE / "playground.md", HERE.parents[2] / "docs" / "playground.md")

PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>setpred playground: guide</title><link rel="stylesheet" href="/style.css"></head>
<body class="guide"><p><a href="/">← playground</a></p>{}</body>
</html>
"""


@cache
def guide_page() -> str:
    """The guide with an anchor at every heading; its pictures, which show the playground itself, are left out."""
    source = next((path for path in PLACES if path.exists()), None)
    text = source.read_text(encoding="utf-8") if source else "The guide is not part of this installation."
    parser = MarkdownIt().enable("table")
    tokens = parser.parse(re.sub(r"!\[[^]]*\]\([^)]*\)(\{[^}]*\})?", "", text))
    for heading, title in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", re.sub(r"[^a-z0-9]+", "-", title.content.lower()).strip("-"))
    return PAGE.format(parser.renderer.render(tokens, parser.options, {}))

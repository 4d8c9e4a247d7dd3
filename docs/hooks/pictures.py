"""Figures are drawn by the library when the site is built.

`![what it shows](figures/NAME.svg)` in a page calls `draw()` of `docs/figures/NAME.py`, which gives a figure or an SVG
element, and puts it into the page itself: an image file could not follow the page's light and dark colours.
"""

import re
import runpy
import sys
from functools import cache
from pathlib import Path
from typing import Any

from setpred.views.style import as_svg, style

FIGURES = Path(__file__).parent.parent / "figures"
IMAGE = re.compile(r"!\[([^\]]*)\]\((?:\.\./)*figures/(\w+)\.svg\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace every image that has a script."""
    return IMAGE.sub(lambda image: framed(picture(image[2]), what=image[1]), markdown)


def framed(svg: str, what: str) -> str:
    """The figure with its own width, from which a phone derives the width that it shows."""
    number, unit = re.search(r'<svg[^>]* width="([\d.]+)(pt)?"', svg).groups()  # type: ignore[union-attr]
    natural = float(number) * (4 / 3 if unit else 1)
    return f'<figure role="img" aria-label="{what}" style="--natural: {natural:.0f}px">{svg}</figure>'


@cache
def picture(name: str) -> str:
    """What `docs/figures/NAME.py` draws, as an SVG element."""
    with style():
        drawn = draw(name)
    svg = drawn if isinstance(drawn, str) else as_svg(drawn, name)
    return re.sub(r"<!--.*?-->|\n\s*", " ", svg, flags=re.S)  # on one line: Markdown ends a block at an empty one


def draw(name: str) -> Any:
    """What the script gives; scripts may import each other, as those of one page do."""
    if str(FIGURES) not in sys.path:
        sys.path.append(str(FIGURES))
    return runpy.run_path(str(FIGURES / f"{name}.py"))["draw"]()

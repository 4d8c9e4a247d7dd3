"""Formulas become MathML when the site is built, and the font they need comes along: no script, no network."""

import html
import re
from importlib.metadata import files
from pathlib import Path
from typing import Any

from fontTools import subset
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

# What pymdownx.arithmatex leaves in the page, inline and as a block, with what must not be torn off it.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>([,.;:)]*)', flags=re.S)
# Browsers show a letter by itself in italics, which are characters of their own.
ITALICS = [*range(0x1D434, 0x1D468), 0x210E, *range(0x1D6E2, 0x1D71C)]


def on_page_content(content: str, **_: Any) -> str:
    """Replace every formula of a page."""
    return FORMULA.sub(_mathml, content)


def _mathml(formula: re.Match[str]) -> str:
    block, latex = formula[1] == "div", html.unescape(formula[2]).strip()
    mathml = convert(latex, display="block" if block else "inline")
    if "\\" in mathml:
        raise PluginError(f"latex2mathml does not know all of {latex!r}: write it another way")
    mathml = re.sub(r"<mo>(&#x0(?:2202|221E);)</mo>", r"<mi>\1</mi>", mathml)  # ∂ and ∞ are no binary operators
    return (
        f'<div class="formula">{mathml}</div>' if block else f'<span class="formula-inline">{mathml}{formula[3]}</span>'
    )


def on_post_build(config: MkDocsConfig) -> None:
    """Write the part of STIX Two Math that the pages use; brackets and roots need its tables to grow."""
    pages = (page.read_text(encoding="utf-8") for page in Path(config.site_dir).rglob("*.html"))
    text = "".join(formula for page in pages for formula in re.findall(r"<math.*?</math>", page, flags=re.S))
    options = subset.Options(flavor="woff", layout_features=["*"])
    (stix,) = (file.locate() for file in files("ziamath") or () if file.name == "STIXTwoMath-Regular.ttf")
    font = subset.load_font(str(stix), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=html.unescape(text), unicodes=ITALICS)
    subsetter.subset(font)
    subset.save_font(font, str(Path(config.site_dir) / "assets" / "mathematics.woff"), options)

"""The pieces of HTML a report is made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from ..views.style import VARIABLES, as_svg, model_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass
class Drawing:
    """Panels that tell one story, and the sentence that says what to look at."""

    name: str
    sentence: str
    panels: "list[Figure]"
    wide: bool = False

    def html(self) -> str:
        drawn = (as_svg(figure, f"{self.name}-{i}") for i, figure in enumerate(self.panels, start=1))
        sentence = escape(self.sentence)
        panels = "".join(f'<div class="panel" role="img" aria-label="{sentence}">{svg}</div>' for svg in drawn)
        layout = "panels wide" if self.wide else "panels"
        return f'<figure><figcaption>{sentence}</figcaption><div class="{layout}">{panels}</div></figure>'


@dataclass
class Section:
    """A heading and what stands under it: drawings, or HTML."""

    title: str
    blocks: list[Drawing | str] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        return self.title.lower().replace(" ", "-")

    def html(self) -> str:
        inside = "".join(block if isinstance(block, str) else block.html() for block in self.blocks)
        return f'<section><h2 id="{self.anchor}">{escape(self.title)}</h2>{inside}</section>'


def paragraph(text: str, quiet: bool = False) -> str:
    return f"<p{' class=quiet' if quiet else ''}>{escape(text)}</p>"


def heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


def model_key(model: str) -> str:
    """A square in the model's colour."""
    colour, _ = model_style(model)
    return f'<span class="key" style="background:var(--{VARIABLES[colour]})"></span>'


def table(names: Sequence[str], rows: Sequence[str], numbers: Sequence[str] = ()) -> str:
    """Rows are `<tr>` elements; the columns named in `numbers` stand right."""
    words = {name: escape(name.replace("element_accuracy", "element accuracy")) for name in names}
    head = "".join(f"<th{' class=number' if name in numbers else ''}>{words[name]}</th>" for name in names)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def cell(text: str, *classes: str, before: str = "") -> str:
    return f'<td class="{" ".join(classes)}">{before}{escape(text)}</td>'


def cards(inside: Sequence[str]) -> str:
    return f'<div class="cards">{"".join(inside)}</div>'


def document(title: str, headlines: Sequence[str], lead: str, sections: Sequence[Section], footer: str) -> str:
    """The whole page, which says first what was found; everything it needs is inside it."""
    css = (files(__package__) / "page.css").read_text(encoding="utf-8")
    links = "".join(f'<a href="#{section.anchor}">{escape(section.title)}</a>' for section in sections)
    body = "".join(section.html() for section in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{css}</style></head><body><main>"
        f"<header>{_head(title, headlines)}<p>{escape(lead)}</p><nav>{links}</nav></header>"
        f"{body}<footer><p>{escape(footer)}</p></footer></main></body></html>\n"
    )


def _head(title: str, headlines: Sequence[str]) -> str:
    if not headlines:
        return f"<h1>{escape(title)}</h1>"
    first, *others = (escape(text) for text in headlines)
    more = f"<ul>{''.join(f'<li>{text}</li>' for text in others)}</ul>" if others else ""
    return f'<p class="quiet">{escape(title)}</p><h1>{first}</h1>{more}'

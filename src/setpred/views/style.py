"""How figures look: a palette that colour-blind readers can use, and colours that follow the page into the dark."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Drawn in these on paper; inside the page each is replaced by the style sheet's own.
INK, MUTED, FAINT, PAPER, ALARM = "#1d2126", "#6b7280", "#d9dde3", "#fefefe", "#b3261d"
BLUE, SKY, VERMILION, GREEN, PURPLE = "#0072b2", "#56b4e9", "#d55e00", "#009e73", "#cc79a7"
ORANGE, GREY, BROWN = "#e69f00", "#8a8f98", "#8c5a2b"
VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    FAINT: "faint",
    PAPER: "paper",
    ALARM: "alarm",
    BLUE: "blue",
    SKY: "sky",
    VERMILION: "vermilion",
    GREEN: "green",
    PURPLE: "purple",
    ORANGE: "orange",
    GREY: "grey",
    BROWN: "brown",
}
# Colour and dashes together are unique within a task, so that no two models rely on hue alone.
MODELS: dict[str, tuple[str, Any]] = {
    "idspn": (BLUE, "-"),
    "idspn-no-momentum": (SKY, "-"),
    "dspn": (VERMILION, "-"),
    "idspn-sum": (GREEN, "-"),
    "idspn-mean": (PURPLE, "-"),
    "deepsets": (GREY, (0, (5, 2))),
    "transformer": (ORANGE, (0, (5, 2))),
    "transformer-random-pe": (PURPLE, (0, (5, 2))),
    "transformer-pe": (GREEN, (0, (5, 2))),
    "transformer-pe-both": (GREEN, (0, (1, 1))),
    "bilstm": (BROWN, (0, (5, 2))),
    "idspn-0.5": (BLUE, (0, (5, 2))),
    "dspn-0.9": (VERMILION, (0, (5, 2))),
    "idspn-relation": (SKY, (0, (5, 2))),
    "slot-attention": (ORANGE, "-"),
    "slot-attention-star": (ORANGE, (0, (2, 1.5))),
    "slot-attention-dagger": (BROWN, "-"),
    "slot-attention-implicit": (BROWN, (0, (2, 1.5))),
    "slot-mlp": (GREY, "-"),
    "mlp": (GREY, "-"),
    "queries": (GREEN, (0, (2, 1.5))),
    "slots": (ORANGE, "-"),
    "slots-unrolled": (ORANGE, (0, (2, 1.5))),
    "reader": (PURPLE, (0, (2, 1.5))),
    "reader-queries": (GREEN, (0, (2, 1.5))),
    "reader-slots": (PURPLE, (0, (5, 2))),
    "best": (INK, "-"),
}
OTHERS = [(colour, (0, (6, 1.5, 1, 1.5))) for colour in (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BROWN, GREY)]
"""For models without a line above, by their names."""
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "font.family": "sans-serif",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.facecolor": PAPER,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "figure.facecolor": PAPER,
    "figure.constrained_layout.use": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "svg.fonttype": "path",
}


def model_style(model: str) -> tuple[str, Any]:
    """The colour and the dashes of a model, the same in every figure."""
    return MODELS.get(model) or OTHERS[crc32(model.encode()) % len(OTHERS)]


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style of the report, whatever the user's own settings of matplotlib are."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def panel(rows: int = 1, columns: int = 1, width: float = 4.6, height: float = 3.0, **options: Any) -> "Any":
    """A figure and its axes, off screen and unknown to pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **options)


def legend_below(figure: "Figure", axes: "Axes", columns: int = 2) -> None:
    """One legend for the whole figure, under it, where it hides nothing."""
    handles, names = axes.get_legend_handles_labels()
    if names:
        figure.legend(handles, names, loc="outside lower left", ncols=min(columns, len(names)), handlelength=2.2)


def as_svg(figure: "Figure", name: str) -> str:
    """The figure as an SVG element to put into a page; `name` makes the identifiers inside it its own."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    figure.set_layout_engine("none")  # it is laid out now; a picture made of it later need not be again
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[\w.]+_\d+">', "<g>", svg)
    # Glyphs are named after their font and shared by all figures; names of one figure must not reach another.
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    return svg


def plain(text: str) -> str:
    """Text from people, in which a dollar is a dollar: matplotlib reads mathematics between two of them."""
    return text.replace("$", r"\$")

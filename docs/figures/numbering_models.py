"""How many sets each model numbers right, ours at 12 elements beside the published at 64."""

import json
from pathlib import Path

from matplotlib.figure import Figure

from setpred.tasks import MODEL_NAMES
from setpred.views.style import INK, PAPER, model_style, panel

TABLE = Path(__file__).parent.parent.parent / "results" / "numbering-small" / "table.json"


def draw() -> Figure:
    cells = json.loads(TABLE.read_text(encoding="utf-8"))["cells"]
    cells = [cell for cell in cells if cell["ours"] in MODEL_NAMES]  # augmented ones have names of their own
    cells.sort(key=lambda cell: cell["mean"])
    figure, axes = panel(width=5.2, height=3.2)
    for place, cell in enumerate(cells):
        colour, _ = model_style(cell["ours"])
        axes.barh(place, cell["mean"], xerr=cell["std"], color=colour, height=0.62, ecolor=INK)
        mark = {"marker": "D", "s": 26, "facecolor": PAPER, "edgecolor": INK, "zorder": 4, "clip_on": False}
        axes.scatter(cell["published_mean"], place, label="published, 64 elements" if place == 0 else None, **mark)
    axes.set_yticks(range(len(cells)), [MODEL_NAMES[cell["ours"]].name for cell in cells])
    axes.set(xlim=(0, 100), title="Test sets numbered right, %")
    axes.grid(False, axis="y")
    axes.legend(loc="lower right")
    return figure

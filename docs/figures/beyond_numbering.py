"""How fast numbering is learned from 640 examples of 64 elements, with the published and the recommended recipe."""

import csv
from pathlib import Path

from matplotlib.figure import Figure

from setpred.paper.published import numbering
from setpred.views.style import BLUE, GREY, MUTED, panel

RESULTS = Path(__file__).parent.parent.parent / "results"
RECIPES = {
    "numbering": ("published recipe", GREY, "-"),
    "numbering-best": ("recommended recipe, 5,500 steps, seed 0", BLUE, "-"),
    "numbering-best-8000": ("8,000 steps, seed 1", BLUE, (0, (4, 2))),
}


def draw() -> Figure:
    figure, axes = panel(1, 1, width=5.2, height=3.0)
    for folder, (label, colour, dashes) in RECIPES.items():
        (curve,) = (RESULTS / folder / "curves").glob("idspn-classes4-samples1-seed*.csv")
        with curve.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["val/accuracy"]]
        steps, right = ([float(row[key]) for row in rows] for key in ("step", "val/accuracy"))
        axes.plot(steps, [100 * fraction for fraction in right], color=colour, linestyle=dashes, label=label)
    published = next(c.mean for c in numbering().cells if c.model == "iDSPN" and c.at == {"classes": 4, "samples": 1})
    axes.axhline(published, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), label="published, after 50,000 steps")
    axes.set(xlabel="training steps", ylabel="val sets numbered right, %", xlim=0, ylim=(0, 100))
    axes.legend(loc="lower right")
    return figure

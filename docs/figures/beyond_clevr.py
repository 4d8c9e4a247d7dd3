"""The training loss of CLEVR's two recipes at preset small, and how precise their places are."""

import csv
import json
from pathlib import Path

from matplotlib.figure import Figure

from setpred.views.style import BLUE, GREY, legend_below, panel

RESULTS = Path(__file__).parent.parent.parent / "results"
RECIPES = {"clevr-small": ("published recipe", GREY), "clevr-best/recipe": ("recommended recipe", BLUE)}
DISTANCES = ("inf", "1", "0.5", "0.25", "0.125")


def draw() -> Figure:
    figure, (curve, places) = panel(1, 2, width=7.8, height=3.2)
    for offset, (folder, (label, colour)) in enumerate(RECIPES.items()):
        with (RESULTS / folder / "curves" / "idspn-seed0.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        steps, loss = ([float(row[key]) for row in rows] for key in ("step", "train/loss"))
        curve.plot(steps, loss, color=colour, label=label)
        cells = json.loads((RESULTS / folder / "table.json").read_text(encoding="utf-8"))["cells"]
        found = {cell["metric"]: cell["mean"] for cell in cells if cell["ours"] == "idspn"}
        at = [place + 0.4 * (offset - 0.5) for place in range(len(DISTANCES))]
        bars = places.bar(at, [found[f"ap_{t}"] for t in DISTANCES], width=0.38, color=colour, label=label)
        places.bar_label(bars, [f"{found[f'ap_{t}']:.2g}" for t in DISTANCES], fontsize=7, padding=1)
    curve.set(
        title="Loss in training", xlabel="training steps", ylabel="mean of 250 steps", xlim=0, ylim=(0.016, 0.055)
    )
    places.set(title="Average precision, %", xlabel="within a distance of")
    places.set_yscale("log")
    places.set_ylim(0.03, 60)
    places.set_xticks(range(len(DISTANCES)), ["∞", *DISTANCES[1:]])
    legend_below(figure, curve, columns=2)
    return figure

"""Losses of autoencoding: as published, of our runs of the same protocol, and of the recommended recipe."""

import json
import runpy
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

from setpred.paper.published import autoencoding
from setpred.views.style import BLUE, GREY, INK, PAPER, legend_below, panel

ROOT = Path(__file__).parent.parent.parent
SIZES = ((2, 2), (4, 4), (8, 4), (8, 8))


def losses() -> dict[str, dict[tuple[int, int], float]]:
    """The loss of iDSPN with momentum at the work of 10 iterations, by its recipe and by n and d."""
    cells = (c for c in autoencoding().cells if c.model == "idspn+momentum" and c.at["steps"] == 10)
    published = {(c.at["n"], c.at["d"]): c.mean for c in cells if (c.at["n"], c.at["d"]) in SIZES}
    table = json.loads((ROOT / "results" / "autoencoding" / "table.json").read_text(encoding="utf-8"))["cells"]
    ours = {(c["n"], c["d"]): c["mean"] for c in table if c["ours"] == "idspn"}
    fresh: dict[tuple[str, int, int], list[float]] = {}
    for run in runpy.run_path(str(ROOT / "docs" / "beyond.py"))["read"]():
        wanted = (10, False) if run["preset"] == "paper" else (8, True)
        means = [row["mean"] for row in run["rows"] if (row["iterations"], row["restart"]) == wanted]
        fresh.setdefault((run["preset"], run["n"], run["d"]), []).append(means[0])
    judged = {(n, d): fmean(means) for (preset, n, d), means in fresh.items() if preset == "paper"}
    best = {(n, d): fmean(means) for (preset, n, d), means in fresh.items() if preset == "best"}
    return {"published": published, "ours, same protocol": ours | judged, "ours, recommended recipe": best}


def draw() -> Figure:
    figure, axes = panel(width=5.2, height=3.0)
    marker_styles = (
        {"marker": "D", "mfc": PAPER, "mec": INK},
        {"marker": "o", "color": GREY},
        {"marker": "o", "color": BLUE},
    )
    for (name, found), marker_style in zip(losses().items(), marker_styles, strict=True):
        places = [place for place, size in enumerate(SIZES) if size in found]
        axes.plot(
            [found[SIZES[place]] for place in places], places, linestyle="", markersize=8, label=name, **marker_style
        )
    axes.set_yticks(range(len(SIZES)), [f"n = {n}, d = {d}" for n, d in SIZES])
    axes.set(xscale="log", title="Loss of iDSPN with momentum, lower is better", ylim=(len(SIZES) - 0.6, -0.4))
    legend_below(figure, axes, columns=3)
    return figure

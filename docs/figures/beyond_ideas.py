"""Inner loss and error of the set against the iterations allowed, with one idea of the recipe taken away at a time."""

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from setpred.views.style import BLUE, GREEN, GREY, INK, MUTED, ORANGE, VERMILION, legend_below, panel

PROBES = Path(__file__).parent.parent.parent / "results" / "beyond" / "probes.json"
FROM = 3
STYLES = {
    "as it is": (BLUE, "-"),
    "no plain last step": (GREY, "-"),
    "outer rate 1e-3": (GREEN, (0, (4, 2))),
    "constant outer rate": (ORANGE, (0, (1, 1))),
    "a learned start instead of a guess": (VERMILION, "-"),
    "an encoder for each end": (INK, (0, (6, 2))),
}


def draw() -> Figure:
    return curves("recipe", STYLES)


def curves(group: str, styles: dict[str, tuple[str, Any]]) -> Figure:
    """The curves of some probes of a group, each named in the legend."""
    probes = json.loads(PROBES.read_text(encoding="utf-8"))[group]
    figure, (inner, error) = panel(1, 2, width=7.8, height=3.6)
    for name, (colour, dashes) in styles.items():
        found = probes[name]["0"]["way"]
        for axes, key in ((inner, "inner"), (error, "error")):
            iterations = range(FROM, len(found[key]) + 1)
            axes.semilogy(iterations, found[key][FROM - 1 :], color=colour, linestyle=dashes, label=name)
    inner.set(title="The inner loss", ylabel="mean, 1,024 sets")
    error.set(title="The error of the set", ylabel="mean Hungarian Huber loss")
    for axes in (inner, error):
        axes.axvline(10, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
        axes.set(xlabel="iterations allowed", xlim=(FROM, 40))
    legend_below(figure, error, columns=3)
    return figure

"""Inner loss and error of the set against the iterations allowed, with and without a plain last step."""

import runpy
from pathlib import Path

from matplotlib.figure import Figure

from setpred.views.style import BLUE, GREY, MUTED, VERMILION, legend_below, panel

FROM = 5
"""Before, nothing is found yet, and what matters later could not be told apart."""
STYLES = {
    ("paper", "plain"): ("published recipe", GREY, "-"),
    ("paper", "settled"): ("published training, plain last step", VERMILION, (0, (4, 2))),
    ("best", "settled"): ("recommended recipe", BLUE, "-"),
}


def draw() -> Figure:
    read = runpy.run_path(str(Path(__file__).parent.parent / "beyond.py"))["read"]
    runs = {r["preset"]: r for r in read() if (r["n"], r["d"], r["seed"]) == (4, 4, 0)}
    figure, (inner, error) = panel(1, 2, width=7.8, height=3.3)
    for (preset, kind), (label, colour, dashes) in STYLES.items():
        found = runs[preset]["way"][kind]
        iterations = range(FROM, len(found["inner"]) + 1)
        for axes, name in ((inner, "inner"), (error, "error")):
            axes.semilogy(iterations, found[name][FROM - 1 :], color=colour, linestyle=dashes, label=label)
    inner.set(title="The inner loss", ylabel="mean, 1,024 sets")
    error.set(title="The error of the set", ylabel="mean Hungarian Huber loss")
    for axes in (inner, error):
        axes.axvline(10, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
        axes.set(xlabel="iterations allowed", xlim=(FROM, 40))
    legend_below(figure, error, columns=3)
    return figure

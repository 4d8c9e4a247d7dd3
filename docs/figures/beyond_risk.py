"""What is left of the error when the predictions with the highest inner loss are withheld."""

import runpy
from pathlib import Path

from matplotlib.figure import Figure

from setpred.views.style import BLUE, INK, legend_below, panel

RECIPES = {"paper": "Published recipe", "best": "Recommended recipe"}
STYLES = {
    "inner loss": ("by inner loss", BLUE, "-"),
    "oracle": ("by the true error, which nobody knows", INK, (0, (2, 2))),
}


def draw() -> Figure:
    read = runpy.run_path(str(Path(__file__).parent.parent / "beyond.py"))["read"]
    found = {r["preset"]: r["risk"] for r in read() if (r["n"], r["d"], r["seed"]) == (4, 4, 0)}
    figure, all_axes = panel(1, 2, width=7.0, height=2.9, sharey=True)
    for axes, (preset, title) in zip(all_axes, RECIPES.items(), strict=True):
        withheld = [100 * (1 - fraction) for fraction in found[preset]["coverage"]]
        for name, (label, colour, dashes) in STYLES.items():
            axes.semilogy(withheld, found[preset][name], color=colour, linestyle=dashes, label=label)
        axes.set(title=title, xlabel="withheld, %", xlim=(0, 30))
    all_axes[0].set_ylabel("mean error of the rest")
    legend_below(figure, all_axes[0], columns=2)
    return figure

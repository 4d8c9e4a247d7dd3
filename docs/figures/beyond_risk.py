"""What is left of the error when the predictions with the highest inner loss are withheld."""

import runpy
from pathlib import Path

from matplotlib.figure import Figure

from setpred.report.look import BLUE, GREY, panel

STYLES = {"inner loss": ("by inner loss", BLUE), "oracle": ("by the true error, which nobody knows", GREY)}


def draw() -> Figure:
    read = runpy.run_path(str(Path(__file__).parent.parent / "beyond.py"))["read"]
    found = {(r["n"], r["d"]): r for r in read() if r["seed"] == 0 and r["preset"] == "best"}
    cells = [cell for cell in ((2, 2), (4, 4), (8, 4)) if cell in found]
    figure, all_axes = panel(1, len(cells), width=2.6 * len(cells) + 0.6, height=2.9, squeeze=False)
    for cell, axes in zip(cells, all_axes[0], strict=True):
        risk = found[cell]["risk"]
        withheld = [100 * (1 - share) for share in risk["coverage"]]
        for name, (label, colour) in STYLES.items():
            axes.semilogy(withheld, risk[name], color=colour, label=label)
        axes.set(title=f"n = {cell[0]}, d = {cell[1]}", xlabel="withheld, %", xlim=(0, 30))
    all_axes[0][0].set_ylabel("mean error of the rest")
    handles, names = all_axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower left", ncols=2)
    return figure

"""Draw `docs/images/results.png`, the chart of the README, from `results/`, the published tables and the shipped model.

python docs/chart.py
"""

import json
import runpy
from pathlib import Path
from typing import Any

from setpred.paper.published import clevr
from setpred.play.zoo import FOLDER
from setpred.tasks import MODEL_NAMES
from setpred.views.style import BLUE, GREY, INK, ORANGE, PAPER, VERMILION, model_style, panel, style

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "images" / "results.png"
WITHIN = ("inf", "0.5", "0.25", "0.125")
PUBLISHED = {
    "iDSPN fs 0.9": ("iDSPN", GREY),
    "DSPN fs 0.5": ("DSPN", VERMILION),
    "Slot Attention*": ("Slot Attention*", ORANGE),
}


def main() -> None:
    with style():
        figure, (scenes, numbering, autoencoding) = panel(1, 3, width=10.6, height=3.1, width_ratios=[1.2, 1, 1])
        objects(scenes)
        numbers(numbering)
        losses(autoencoding)
        figure.savefig(OUT, dpi=130)
    print(OUT, f"{OUT.stat().st_size / 2**10:.0f} kB")


def objects(axes: Any) -> None:
    """Average precision by distance, the mean over images, which is the published rule."""
    metrics = json.loads((FOLDER / "scenes" / "trained.json").read_text(encoding="utf-8"))["metrics"]
    lines = {"setpred": (BLUE, [100 * metrics[f"image_ap_{distance}"] for distance in WITHIN])}
    for model, (name, colour) in PUBLISHED.items():
        cells = {f"{c.at['threshold']:g}": c.mean for c in clevr().cells if c.model == model and c.at["pixels"] == 128}
        lines[f"{name}, published"] = (colour, [cells[distance] for distance in WITHIN])
    for name, (colour, precision) in lines.items():
        axes.plot(precision, "o-", color=colour, label=name, markersize=4, linewidth=2.4 if colour == BLUE else 1.4)
    axes.set_xticks(range(len(WITHIN)), [distance.replace("inf", "∞") for distance in WITHIN])
    axes.set(title="Objects in images: AP, %", xlabel="found within a distance of", ylim=(0, 103))
    axes.legend(loc="lower left")


def numbers(axes: Any) -> None:
    """Sets with every number right."""
    table = json.loads((ROOT / "results" / "numbering-small" / "table.json").read_text(encoding="utf-8"))
    cells = [cell for cell in table["cells"] if cell["ours"] in MODEL_NAMES]
    cells.sort(key=lambda cell: cell["mean"])
    for place, cell in enumerate(cells):
        axes.barh(place, cell["mean"], xerr=cell["std"], color=model_style(cell["ours"])[0], height=0.62, ecolor=INK)
    names = [MODEL_NAMES[cell["ours"]].name.replace(" + momentum", "") for cell in cells]
    axes.set_yticks(range(len(cells)), names)
    axes.set(title="Equal elements numbered: sets right, %", xlim=(0, 100))
    axes.grid(False, axis="y")


def losses(axes: Any) -> None:
    """Autoencoding, as published and as we recommend."""
    found = runpy.run_path(str(ROOT / "docs" / "figures" / "autoencoding_losses.py"))
    sizes, values = found["SIZES"], found["losses"]()
    marker_styles = {
        "published": {"marker": "D", "mfc": PAPER, "mec": INK},
        "ours, recommended recipe": {"marker": "o", "color": BLUE},
    }
    for name, marker_style in marker_styles.items():
        axes.plot(
            [values[name][size] for size in sizes],
            range(len(sizes)),
            linestyle="",
            label=name,
            markersize=7,
            **marker_style,
        )
    axes.set_yticks(range(len(sizes)), [f"n={n}, d={d}" for n, d in sizes])
    axes.set(xscale="log", title="Sets rebuilt: loss", ylim=(len(sizes) - 0.2, -0.5))
    axes.legend(loc="lower left")


if __name__ == "__main__":
    main()

"""Inner loss and error of the set against the iterations allowed, for other methods than the recipe's."""

import runpy
from pathlib import Path

from matplotlib.figure import Figure

from setpred.views.style import BLUE, BROWN, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION

STYLES = {
    "as it is": (BLUE, "-"),
    "no plain last step": (GREY, "-"),
    "half the inner step": (GREEN, (0, (4, 2))),
    "three times the inner step": (ORANGE, (0, (4, 2))),
    "momentum 0.7": (SKY, (0, (1, 1))),
    "momentum 0.95": (VERMILION, (0, (1, 1))),
    "a random start": (PURPLE, "-"),
    "conjugate gradient adjoint": (BROWN, "-"),
}


def draw() -> Figure:
    return runpy.run_path(str(Path(__file__).parent / "beyond_ideas.py"))["curves"]("first recipe", STYLES)

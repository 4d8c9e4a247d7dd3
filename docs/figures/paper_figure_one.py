"""Figure 1 of the paper: the published losses, and ours of the same protocol where they have been run."""

from pathlib import Path

from matplotlib.figure import Figure

from setpred.paper.coverage import compare_all, read_kept
from setpred.paper.figure_one import figure_one
from setpred.paper.reproduce import make_plan

RESULTS = Path(__file__).parent.parent.parent / "results"


def draw() -> Figure:
    plan = make_plan("autoencoding", ["model=dspn,idspn-no-momentum,idspn"], RESULTS / "runs")
    (comparison,) = compare_all([plan], read_kept(RESULTS))
    return figure_one(comparison)

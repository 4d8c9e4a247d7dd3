"""Three points on their path to the corners of a triangle, and the inner loss along it."""

from matplotlib.figure import Figure
from tutorial_run import tutorial

from setpred.views.style import BLUE, INK, MUTED, panel

STEPS = 60


def draw() -> Figure:
    names = tutorial()
    trace = names["decoder"].eval().solve(names["z"], steps=STEPS, trace=True).trace
    sets, loss = trace.sets[:, 0].detach(), trace.loss[:, 0].detach()
    figure, (plane, curve) = panel(1, 2, width=6.6, height=3.0)
    plane.plot(*names["triangle"].T, "o", markersize=13, mfc="none", mec=MUTED)
    for point in range(3):
        plane.plot(*sets[:, point].T, color=BLUE, linewidth=1)
        plane.plot(*sets[0, point], "+", color=INK, markersize=8)
        plane.plot(*sets[-1, point], "o", color=BLUE, markersize=5)
    plane.set(title="The points", aspect="equal")
    curve.semilogy(loss, color=BLUE)
    curve.set(title="The inner loss", xlabel="iteration")
    return figure

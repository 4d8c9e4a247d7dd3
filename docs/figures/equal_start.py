"""Six points that begin in the same place: sort pooling takes them apart, sum and mean pooling cannot."""

import torch
from matplotlib.figure import Figure

import setpred as sp
from setpred.report.look import BLUE, GREEN, INK, MUTED, PURPLE, panel

SIZE, WIDTH, STEPS = 6, 256, 400
POOLS = {"fs": ("FSPool", BLUE), "sum": ("sum", GREEN), "mean": ("mean", PURPLE)}


def draw() -> Figure:
    angle = torch.arange(SIZE) * 2 * torch.pi / SIZE
    target = torch.stack([angle.cos(), angle.sin()], dim=-1)  # [SIZE, 2]
    figure, axes = panel(1, 3, width=7.8, height=2.9)
    for place, (pool, (name, colour)) in zip(axes, POOLS.items(), strict=True):
        torch.manual_seed(0)
        encoder = sp.SetEncoder(dim=2, hidden=WIDTH, latent=WIDTH, size=SIZE, pool=pool)
        decoder = sp.iDSPN(encoder, size=SIZE, dim=2).eval()
        z = encoder(target[None]).detach()
        way = decoder.solve(z, init=torch.zeros(SIZE, 2), steps=STEPS, trace=True).trace
        assert way is not None
        paths = way.sets[:, 0]  # [STEPS + 1, SIZE, 2]
        place.scatter(*target.T, s=90, facecolors="none", edgecolors=MUTED, linewidths=1.2)
        for i in range(SIZE):
            place.plot(*paths[:, i].T, color=colour, linewidth=1.2)
        place.scatter(0, 0, s=34, marker="+", color=INK, linewidths=1.4, zorder=3)
        place.scatter(*paths[-1].T, s=26, color=colour, zorder=4)
        apart = len(paths[-1].mul(1e3).round().unique(dim=0))
        place.set_title(f"{name}: {apart} point{'s' if apart > 1 else ''} of {SIZE}")
        place.set(aspect="equal", xlim=(-1.45, 1.45), ylim=(-1.45, 1.45), xticks=[], yticks=[])
        place.spines[:].set_visible(False)
    return figure

"""What a set-equivariant model makes of two numbers that come together, beside `push_apart`, which it was taught."""

import torch
from matplotlib.figure import Figure

import setpred as sp
from setpred.views.style import BLUE, GREY, MUTED, VERMILION, panel


def taught() -> sp.baselines.DeepSets:
    """A set-equivariant network trained on pairs of numbers, most of them near each other."""
    torch.manual_seed(0)
    model = sp.baselines.DeepSets(dim=1, hidden=32, out=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(600):
        pairs = 0.5 * torch.randn(128, 2, 1)
        loss = (model(pairs) - sp.equivariance.push_apart(pairs)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def draw() -> Figure:
    gap = torch.linspace(0, 1, 201)
    pairs = torch.stack([-gap / 2, gap / 2], dim=1).unsqueeze(-1)  # [201, 2, 1]
    outputs = {
        "push_apart": (sp.equivariance.push_apart(pairs), BLUE, "-"),
        "set-equivariant network, taught push_apart": (taught()(pairs).detach(), VERMILION, "-"),
        "input": (pairs, GREY, (0, (4, 2))),
    }
    figure, axes = panel(width=5.2, height=3.1)
    for name, (values, colour, dashes) in outputs.items():
        for i in range(2):
            axes.plot(gap, values[:, i, 0], color=colour, linestyle=dashes, label=name if i == 0 else None)
    axes.axhline(0, color=MUTED, linewidth=0.6)
    axes.set(xlabel="distance of the two inputs", ylabel="the two outputs", xlim=(0, 1), yticks=[-1, 0, 1])
    figure.legend(loc="outside lower left", ncols=1)
    return figure

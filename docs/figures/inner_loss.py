"""Finding a set: the inner loss under three solvers, and the set that is found before and after training."""

import torch
from matplotlib.figure import Figure

import setpred as sp
from setpred.views.style import BLUE, GREY, MUTED, ORANGE, VERMILION, panel

SIZE, WIDTH, STEPS, TRAINED_AT, TRAINING = 4, 64, 100, 10, 300


def draw() -> Figure:
    torch.manual_seed(0)
    network, encoder = (sp.SetEncoder(dim=2, hidden=WIDTH, latent=WIDTH, size=SIZE) for _ in range(2))
    decoder = sp.iDSPN(encoder, solver=sp.Nesterov(steps=TRAINED_AT))
    sets = torch.randn(64, SIZE, 2)
    figure, (finding, learning) = panel(1, 2, width=7.8, height=3.0)

    solvers = {
        "gradient descent": (sp.GradientDescent(), GREY),
        "Nesterov, momentum 0.9": (sp.Nesterov(), BLUE),
        "Adam": (sp.TorchOptimizer(torch.optim.Adam, lr=0.1), ORANGE),
    }
    for name, (solver, colour) in solvers.items():
        loss = trace(sp.SetDecoder(encoder, solver=solver), encoder(sets)).loss
        finding.semilogy(loss.median(dim=1).values, color=colour, label=name)
    finding.set(title="Untrained: is g(Y) = z reached?", ylabel="inner loss (median)")

    for name, colour in (("before training", VERMILION), (f"after {TRAINING} steps", BLUE)):
        if name != "before training":
            train(network, decoder)
        found = trace(decoder, network(sets)).sets  # [STEPS + 1, 64, SIZE, 2]
        errors = [sp.hungarian_loss(y, sets, cost="huber").mean() for y in found]
        learning.plot(errors, color=colour, label=name)
    learning.axvline(TRAINED_AT, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    learning.set(title=f"Trained at {TRAINED_AT} iterations: is Y right?", ylabel="Hungarian loss (mean)", ylim=0)
    for axes in (finding, learning):
        axes.set(xlabel="inner iterations", xlim=(0, STEPS))
    finding.legend(loc="lower left")
    learning.legend(loc="center right")
    return figure


def train(network: torch.nn.Module, decoder: sp.SetDecoder) -> None:
    """Autoencode random sets for a few seconds."""
    optimizer = torch.optim.Adam([*network.parameters(), *decoder.parameters()], lr=1e-3)
    for _ in range(TRAINING):
        sets = torch.randn(64, SIZE, 2)
        loss = sp.hungarian_loss(decoder(network(sets)), sets, cost="huber").mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def trace(decoder: sp.SetDecoder, z: torch.Tensor) -> sp.Trace:
    """The trajectory of a batch through all iterations."""
    trajectory = decoder.eval().solve(z.detach(), steps=STEPS, trace=True).trace
    decoder.train()
    assert trajectory is not None
    return trajectory

"""Compress random sets of points into vectors and get the sets back: an iDSPN autoencoder in plain PyTorch."""

import torch

import setpred as sp


def train(steps: int = 300, size: int = 4, dim: int = 2, width: int = 128, batch: int = 64) -> list[float]:
    """Train on fresh random sets, and return the loss of every step."""
    torch.manual_seed(0)
    encoder = sp.SetEncoder(dim, hidden=width, latent=width, size=size)
    decoder = sp.iDSPN(
        sp.SetEncoder(dim, hidden=width, latent=width, size=size),  # its own: the decoder searches for g(Y) = z
        solver=sp.Nesterov(steps=10, lr=1.0, momentum=0.9),
        init=sp.LearnedInit(),
    )
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    losses = []
    for step in range(steps):
        sets = torch.randn(batch, size, dim)
        loss = sp.hungarian_loss(decoder(encoder(sets)), sets, cost="huber").mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 50 == 0 or step == steps - 1:
            inner = decoder.diagnostics["inner_loss"].item()
            print(f"step {step:4d}   loss {losses[-1]:.4f}   inner loss {inner:.2e}")
    return losses


if __name__ == "__main__":
    train()

"""Handwritten digits as sets of points: keep them in a vector, then draw other ones from their class alone.

    python examples/digits.py            minutes on one core; figures, numbers and weights go to runs/digits
    python examples/digits.py --quick    seconds: only shows that everything runs

Needs scikit-learn, which brings the 1,797 images of 8 × 8 pixels, and matplotlib.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

import setpred as sp

SIZE = 24  # points of a set
HIDDEN, LATENT = 128, 256  # units of the encoders; numbers in the vector of a set
TRAIN = 1500  # images to learn from; the other 297 judge
PIXEL = 0.25  # the 8 × 8 pixels fill the square from -1 to 1


def draw(ink: Tensor) -> Tensor:
    """Images `[batch, 8, 8]` → points `[batch, SIZE, 2]`: each pixel gets points in proportion to its ink."""
    below = ink.flatten(1).cumsum(1)
    level = (torch.arange(SIZE) + torch.rand(len(ink), 1)) / SIZE * below[:, -1:]  # evenly spaced: no clumps
    pixel = torch.searchsorted(below, level).clamp(max=63)
    corner = torch.stack([pixel % 8, 7 - pixel // 8], dim=-1)
    return (corner + torch.rand(corner.shape)) * PIXEL - 1


def train_autoencoder(ink: Tensor, steps: int) -> tuple[sp.SetEncoder, sp.SetDecoder]:
    """Points → vector → points. Each step draws the points afresh, so no set is seen twice."""
    encoder = sp.SetEncoder(dim=2, hidden=HIDDEN, latent=LATENT, size=SIZE)
    decoder = sp.iDSPN(
        sp.SetEncoder(dim=2, hidden=HIDDEN, latent=LATENT, size=SIZE),
        solver=sp.Nesterov(steps=10, eval_steps=20, lr=1.0, momentum=0.9, clip=10.0),
        init=sp.RandomInit(0.5),
    )
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        points = draw(ink[torch.randint(len(ink), (32,))])
        loss = sp.hungarian_loss(decoder(encoder(points)), points, cost="huber").mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 500 == 0 or step == steps - 1:
            print(f"autoencoder, step {step:5d}   loss {loss.item():.5f}", flush=True)
    return encoder.eval(), decoder.eval()


def train_class_vectors(
    encoder: sp.SetEncoder, decoder: sp.SetDecoder, ink: Tensor, label: Tensor, steps: int
) -> Tensor:
    """One vector for each class, `[10, LATENT]`, whose set has the least Hungarian loss over all images of that class.

    The decoder stays as it is: only the ten vectors learn, through its implicit gradients.
    """
    with torch.no_grad():
        codes = encoder(draw(ink))
    vectors = torch.stack([codes[label == c].mean(0) for c in range(10)]).requires_grad_()
    optimizer = torch.optim.Adam([vectors], lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        chosen = torch.randint(len(ink), (64,))
        loss = sp.hungarian_loss(decoder(vectors[label[chosen]]), draw(ink[chosen]), cost="squared").mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return vectors.detach()


@torch.no_grad()
def draw_vectors(encoder: sp.SetEncoder, ink: Tensor, label: Tensor, count: int) -> Tensor:
    """Vectors of each class, `[10, count, LATENT]`, from a normal distribution fitted to those of its images."""
    drawn = []
    for c in range(10):
        codes = encoder(draw(ink[label == c].repeat(8, 1, 1)))  # some hundred images, eight draws of each
        directions = torch.linalg.cholesky(torch.cov(codes.T) + 1e-4 * torch.eye(LATENT))
        drawn.append(codes.mean(0) + torch.randn(count, LATENT) @ directions.T)
    return torch.stack(drawn)


def as_images(sets: Tensor) -> Tensor:
    """How much of each point falls on each of the 8 × 8 pixels and their surroundings, `[batch, 64]`."""
    middle = (torch.arange(8) + 0.5) * PIXEL - 1
    weight = torch.exp(-((sets[..., None] - middle) ** 2) / (2 * PIXEL**2))  # [batch, SIZE, 2, 8]
    return torch.einsum("bsx,bsy->byx", weight[:, :, 0], weight[:, :, 1]).flatten(1)


def apart(sets: Tensor, others: Tensor) -> float:
    """The mean distance of matched points, in pixels."""
    return sp.hungarian_loss(sets, others, cost="euclidean").mean().item() / PIXEL


@torch.no_grad()
def decode(decoder: sp.SetDecoder, vectors: Tensor) -> Tensor:
    return decoder(vectors)


def main(quick: bool, out: Path) -> dict[str, float]:
    torch.manual_seed(0)
    data = load_digits()
    ink, label = torch.tensor(data.images, dtype=torch.float32), torch.tensor(data.target)
    known, known_label, new, new_label = ink[:TRAIN], label[:TRAIN], ink[TRAIN:], label[TRAIN:]

    encoder, decoder = train_autoencoder(known, steps=30 if quick else 5000)
    means = decode(decoder, train_class_vectors(encoder, decoder, known, known_label, steps=5 if quick else 300))
    drawn = decode(decoder, draw_vectors(encoder, known, known_label, count=30).flatten(0, 1)).unflatten(0, (10, 30))

    # Who reads the drawings has never seen the model: nearest neighbours of real sets, compared as blurred images.
    points, classes = draw(new), torch.arange(10)
    found = decode(decoder, encoder(points))
    reader = KNeighborsClassifier(5).fit(as_images(draw(known)), known_label)
    same_class = known[(known_label == new_label[:, None]).float().multinomial(1)[:, 0]]
    numbers = {
        "autoencoded, pixels apart": apart(found, points),
        "two draws of one image, pixels apart": apart(draw(new), points),
        "another image of its class, pixels apart": apart(draw(same_class), points),
        "the set of its class vector, pixels apart": apart(means[new_label], points),
        "read right: real sets": float(reader.score(as_images(points), new_label)),
        "read right: autoencoded": float(reader.score(as_images(found), new_label)),
        "read right: one set a class": float(reader.score(as_images(means), classes)),
        "read right: drawn from the class": float(
            reader.score(as_images(drawn.flatten(0, 1)), classes.repeat_interleave(30))
        ),
        "processor seconds": time.process_time(),
    }
    print("\n".join(f"{name:42s} {number:.3f}" for name, number in numbers.items()))

    out.mkdir(parents=True, exist_ok=True)
    (out / "numbers.json").write_text(json.dumps(numbers, indent=2) + "\n")
    encoder.save_pretrained(out / "encoder")
    decoder.save_pretrained(out / "decoder")
    first = torch.stack([(new_label == c).nonzero()[0, 0] for c in classes])
    figure_autoencoded(new[first], points[first], found[first], out / "digits-autoencoded.png")
    figure_drawn(known, known_label, means, drawn[:, :3], out / "digits-drawn.png")
    return numbers


def figure_autoencoded(images: Tensor, points: Tensor, found: Tensor, path: Path) -> None:
    """Ten new images, the points drawn from them as rings, and the points that came back as dots."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 5, figsize=(9, 3.9), layout="constrained")
    for ax, image, ring, dot in zip(axes.flat, images, points, found, strict=True):
        ax.imshow(image.numpy(), cmap="Greys", vmax=40, extent=(-1, 1, -1, 1))
        ax.scatter(*ring.T, s=46, facecolors="none", edgecolors="#0072B2", linewidths=1.3, label="drawn from the image")
        ax.scatter(*dot.T, s=11, color="#D55E00", label="back from the vector")
        ax.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
        ax.axis("off")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def figure_drawn(images: Tensor, label: Tensor, means: Tensor, drawn: Tensor, path: Path) -> None:
    """For each class: the mean of its pixels, the set of its one vector, and sets of vectors drawn for it."""
    import matplotlib.pyplot as plt

    names = ["mean of the pixels", "one set a class", *["drawn from the class"] * drawn.shape[1]]
    figure, axes = plt.subplots(len(names), 10, figsize=(9, 0.95 * len(names) + 0.1), layout="constrained")
    for c in range(10):
        axes[0, c].imshow(images[label == c].mean(0).numpy(), cmap="Greys", extent=(-1, 1, -1, 1))
        for ax, points in zip(axes[1:, c], [means[c], *drawn[c]], strict=True):
            ax.scatter(*points.T, s=10, color="#0072B2" if ax is axes[1, c] else "#D55E00")
    for row, name in zip(axes, names, strict=True):
        row[0].set_ylabel(name.replace(" ", "\n", 1), rotation=0, ha="right", va="center", fontsize=8)
        for ax in row:
            ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny training, in seconds")
    parser.add_argument("--out", type=Path, default=Path("runs/digits"))
    main(**vars(parser.parse_args()))

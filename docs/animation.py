"""Draw `docs/images/equal-start.gif`: from sixteen equal points, FSPool finds the set and sum pooling cannot.

python docs/animation.py
"""

import math
from dataclasses import replace
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from setpred import hungarian_loss
from setpred.play import pretrained

OUT = Path(__file__).parent / "images" / "equal-start.gif"
POOLS = {"fs": ("FSPool (iDSPN)", "#0072b2"), "sum": ("sum pooling", "#d55e00")}
SIZE, STEPS, REST = 16, 60, 22
SIDE, UNIT, SCALE = 300, 66, 2  # of a panel, of a unit of length in it; drawn larger, then made small and smooth
INK, MUTED, PAPER = "#1d2126", "#8a8f98", "#ffffff"


def star() -> Tensor:
    """Sixteen points on the outline of a star, `[SIZE, 2]`."""
    corners = []
    for corner in range(10):
        angle, radius = math.pi / 2 + corner * math.pi / 5, 1.7 if corner % 2 == 0 else 0.75
        corners.append((radius * math.cos(angle), radius * math.sin(angle)))
    outline = torch.tensor(corners)
    edges = (outline + outline.roll(-1, 0)) / 2
    return torch.cat([outline, edges[[0, 9, 2, 7, 4, 5]]])


@torch.no_grad()
def search(pool: str, target: Tensor) -> Tensor:
    """The iterates from a start of equal points, `[STEPS + 1, SIZE, 2]`."""
    model = pretrained(f"points-{pool}")
    decoder = model.decoder
    assert decoder is not None
    decoder.solver = replace(decoder.solver, lr=0.7)  # as the playground has it: with 1 some points never rest
    trace = decoder.solve(model.encode(target[None]), init=torch.zeros(SIZE, 2), steps=STEPS, trace=True).trace
    assert trace is not None
    return trace.sets[:, 0]


def panel(drawn: ImageDraw.ImageDraw, left: int, title: str, colour: str, target: Tensor, sets: Tensor) -> None:
    font, small = (ImageFont.load_default(size * SCALE) for size in (17, 14))
    drawn.text(((left + 12) * SCALE, 10 * SCALE), title, INK, font)
    error = float(hungarian_loss(sets[-1:], target[None], cost="euclidean"))
    drawn.text(
        ((left + 12) * SCALE, (SIDE + 8) * SCALE), f"iteration {len(sets) - 1:2d}   error {error:.2f}", MUTED, small
    )
    for x, y in target.tolist():
        circle(drawn, left, x, y, 8, outline=MUTED)
    for point in range(SIZE):
        trail = [place(left, *at) for at in sets[-8:, point].tolist()]
        if len(trail) > 1:
            drawn.line(trail, colour, 2)
        circle(drawn, left, *sets[-1, point].tolist(), 4.5, fill=colour)
    if (sets[-1] - sets[-1, 0]).abs().max() < 0.01:
        x, y = place(left, *sets[-1, 0].tolist())
        drawn.text((x + 9 * SCALE, y - 9 * SCALE), f"{SIZE} points", INK, small)


def place(left: int, x: float, y: float) -> tuple[float, float]:
    return (left + SIDE / 2 + UNIT * x) * SCALE, (30 + SIDE / 2 - UNIT * y) * SCALE


def circle(drawn: ImageDraw.ImageDraw, left: int, x: float, y: float, radius: float, **colours: str) -> None:
    cx, cy = place(left, x, y)
    radius *= SCALE
    drawn.ellipse((cx - radius, cy - radius, cx + radius, cy + radius), width=3, **colours)


def main() -> None:
    target = star()
    found = {pool: search(pool, target) for pool in POOLS}
    width, height = 2 * SIDE + 20, SIDE + 36
    frames = []
    for step in [0] * 8 + list(range(STEPS + 1)):
        image = Image.new("RGB", (width * SCALE, height * SCALE), PAPER)
        drawn = ImageDraw.Draw(image)
        for number, (pool, (title, colour)) in enumerate(POOLS.items()):
            panel(drawn, number * (SIDE + 20), title, colour, target, found[pool][: step + 1])
        frames.append(image.resize((width, height), Image.Resampling.LANCZOS))
    palette = frames[20].quantize(64)  # one for all, so that no colour changes on the way
    frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    duration = [70] * (len(frames) - 1) + [70 * REST]
    frames[0].save(OUT, save_all=True, append_images=frames[1:], duration=duration, loop=0, optimize=True)
    last = {pool: float(hungarian_loss(sets[-1:], target[None], cost="euclidean")) for pool, sets in found.items()}
    print(OUT, f"{OUT.stat().st_size / 2**20:.2f} MB", last)


if __name__ == "__main__":
    main()

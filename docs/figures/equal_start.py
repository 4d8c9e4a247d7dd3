"""Six points that begin in the same place: sort pooling takes them apart, sum and mean pooling cannot.

Written as SVG by hand, because it moves. A reader who prefers stillness sees the last iteration.
"""

import torch
from torch import Tensor

import setpred as sp

SIZE, WIDTH, STEPS = 6, 256, 400
POOLS = {"fs": ("FSPool", "blue"), "sum": ("sum pooling", "green"), "mean": ("mean pooling", "purple")}
SIDE, UNIT = 240, 82  # of a panel, and of one unit of length in it
FRAMES, REST = 60, 15  # of the descent, and at its end


def draw() -> str:
    angle = torch.arange(SIZE) * 2 * torch.pi / SIZE
    target = torch.stack([angle.cos(), angle.sin()], dim=-1)  # [SIZE, 2]
    panels = [
        panel(number * (SIDE + 20), name, colour, placed(target), placed(descend(pool, target)))
        for number, (pool, (name, colour)) in enumerate(POOLS.items())
    ]
    return f'<svg viewBox="0 0 {3 * SIDE + 40} {SIDE + 50}" width="510">{"".join(panels)}</svg>'


def descend(pool: str, target: Tensor) -> Tensor:
    """The iterates of a decoder that looks for the target from a start of equal points, `[STEPS + 1, SIZE, 2]`."""
    torch.manual_seed(0)
    encoder = sp.SetEncoder(dim=2, hidden=WIDTH, latent=WIDTH, size=SIZE, pool=pool)
    decoder = sp.iDSPN(encoder).eval()
    z = encoder(target[None]).detach()
    trace = decoder.solve(z, init=torch.zeros(SIZE, 2), steps=STEPS, trace=True).trace
    assert trace is not None
    return trace.sets[:, 0]


def placed(points: Tensor) -> Tensor:
    """From the plane to the places of a panel, where down is positive."""
    return SIDE / 2 + UNIT * points * points.new_tensor([1, -1])


def panel(left: int, name: str, colour: str, target: Tensor, path: Tensor) -> str:
    places = len(path[-1].round(decimals=1).unique(dim=0))
    outcome = "all at one place" if places == 1 else f"at {places} places"
    # The descent is shown slowly at first, where most of it happens.
    frames = (torch.linspace(0, 1, FRAMES).square() * STEPS).round().long().tolist() + [STEPS] * REST
    circles = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9"/>' for x, y in target.tolist())
    lines = "".join(f'<polyline points="{listed(points)}"/>' for points in path[::4].transpose(0, 1))
    moving = "".join(dot(points[frames]) for points in path.transpose(0, 1))
    still = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>' for x, y in path[-1].tolist())
    x, y = placed(torch.zeros(2)).tolist()
    return (
        f'<g transform="translate({left} 50)" fill="var(--ink)" font-size="19">'
        f'<text y="-28" font-weight="600">{name}</text><text y="-4">{outcome}</text>'
        f'<g fill="none" stroke="var(--muted)" stroke-width="1.3">{circles}</g>'
        f'<g fill="none" stroke="var(--{colour})" stroke-opacity=".45" stroke-width="1.3">{lines}</g>'
        f'<path d="M{x - 4} {y}h8m-4 -4v8" stroke="var(--ink)" stroke-width="1.4"/>'
        f'<g fill="var(--{colour})"><g class="moving">{moving}</g><g class="still">{still}</g></g></g>'
    )


def dot(places: Tensor) -> str:
    """A point that passes the places, `[frames, 2]`, again and again."""
    turns = 'dur="6s" repeatCount="indefinite"'
    ways = zip(("cx", "cy"), places.T.tolist(), strict=True)
    parts = (
        f'<animate attributeName="{axis}" values="{";".join(f"{p:.1f}" for p in values)}" {turns}/>'
        for axis, values in ways
    )
    return f'<circle r="4.5">{"".join(parts)}</circle>'


def listed(points: Tensor) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points.tolist())

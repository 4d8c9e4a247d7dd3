"""CLEVR's stage: the camera that sees it, the lamps that light it, and what it is made of.

The camera's constants are measured. Camera positions of 200 Blender scenes, one target and one focal length, fitted by
least squares to the scenes' `pixel_coords` and `directions`, gave a target within 0.006 of the origin, a focal
length of 34.9998 mm on a 32 mm sensor, positions filling a box of half-width 0.5 around `POSITION`, and pixels
within the half pixel that their rounding costs. `tests/data/test_scenes.py` repeats the measurement.

Colours, lamps and their jitter are CLEVR's. Powers, surroundings, albedos and backdrop were found by least squares
on the pixels of 30 Blender scenes, rendered with their own cameras. That fit cannot see what the lamps' jitter
blurs, because the scene files do not contain it. The lamps' radii, bounce, sheen, glare and gloss were therefore set
by eye and by the distribution of bright and dark pixels. Over 200 scenes about 6 of 255 remain (root mean square).
Light is linear RGB; a white surface that faces a lamp of power 0.1 at the origin shows 0.1.
"""

from __future__ import annotations

from math import hypot, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

WIDTH, HEIGHT = 480, 320
FOCAL = 35.0 / 32.0
"""Focal length in units of the frame's width."""
POSITION = (7.48113, -6.50764, 5.34367)
JITTER = 0.5

COLORS = {
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}

# Key, fill and back light, and a sun so far away that its distance does not matter.
LAMP_PLACES = np.array(
    [[6.44671, -2.90517, 4.2584], [-4.67112, -4.0136, 3.01122], [-1.1685, 2.64602, 5.81574], [116.6, -66.3, 258.2]]
)
LAMP_JITTER = 1.0
LAMP_RADII = np.array([0.7, 0.8, 0.7, 30.0])
LAMP_POWERS = np.array([[0.116, 0.108, 0.094], [0.046, 0.049, 0.057], [0.106, 0.106, 0.105], [0.102, 0.104, 0.104]])

AMBIENT = (0.043, 0.042, 0.043)
"""Light from the surroundings on a surface that faces up."""
UNDER = (0.171, 0.169, 0.162)
"""Light from the floor on a surface that faces down."""
FLOOR = 0.79
"""Albedo of floor and wall."""
BACKDROP = (-0.7935, 0.6086, 11.4, 9.05, 14.0, 10.0)
"""The wall into which the floor turns: direction from the origin, distance, turn, half width, height."""
BOUNCE = 0.28
"""Light from the solids near by, as a share of their colour."""
SHEEN = 0.01
"""Strength of the dull highlight of rubber."""
METAL = 0.935
"""Reflectance of metal, as a share of its colour."""
GLARE = 0.7
"""Strength of the lamps' images in metal."""
GLOSS = 0.07
"""Width of the lamps' images, in radians."""
BLUR = 0.1
"""Width of the cone in which metal sees its surroundings, in radians."""
DARK = 0.02
"""What is seen where there is nothing."""


def axes(position: ArrayLike = POSITION) -> NDArray[np.float64]:
    """Rows right, up, forward `[3, 3]` of a camera at `position` that looks at the origin.

    >>> axes((0, -5, 0)).round(6) + 0.0
    array([[1., 0., 0.],
           [0., 0., 1.],
           [0., 1., 0.]])
    """
    x, y, z = (-float(value) for value in np.asarray(position))
    flat, length = hypot(x, y), sqrt(x * x + y * y + z * z)
    right = (y / flat, -x / flat, 0.0)
    up = (-x * z / (flat * length), -y * z / (flat * length), flat / length)
    return np.array([right, up, (x / length, y / length, z / length)])


def project(points: ArrayLike, position: ArrayLike = POSITION) -> NDArray[np.float64]:
    """Pixel column, pixel row and depth `[..., 3]` of world points `[..., 3]`.

    >>> project((0, 0, 0)).round(3)
    array([240.   , 160.   ,  11.264])
    """
    offset = np.asarray(points, dtype=np.float64) - np.asarray(position, dtype=np.float64)
    right, up, depth = np.moveaxis(offset @ axes(position).T, -1, 0)
    scale = WIDTH * FOCAL / depth
    return np.stack([WIDTH / 2 + right * scale, HEIGHT / 2 - up * scale, depth], axis=-1)


def directions(position: ArrayLike = POSITION) -> dict[str, list[float]]:
    """CLEVR's six directions of a scene: the camera's axes laid on the ground."""
    right, _, forward = axes(position)
    behind = np.array([forward[0], forward[1], 0.0])
    behind /= np.linalg.norm(behind)
    above = np.array([0.0, 0.0, 1.0])
    pairs = {"behind": behind, "front": -behind, "left": -right, "right": right, "above": above, "below": -above}
    return {name: [float(x) + 0.0 for x in vector] for name, vector in pairs.items()}


def lamp_rows(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lamps for the tracer `[4, 11]`, the first ones moved to `places` `[3, 3]`; they keep facing as before."""
    moved = np.concatenate([places, LAMP_PLACES[len(places) :]])
    square = (LAMP_PLACES**2).sum(1, keepdims=True)
    return np.concatenate([moved, LAMP_RADII[:, None], LAMP_PLACES / np.sqrt(square), square, LAMP_POWERS], axis=1)


def srgb_table() -> NDArray[np.uint8]:
    """Bytes for linear light from 0 to 1 in 16,384 steps, fine enough for the darkest bytes."""
    light = np.linspace(0.0, 1.0, 1 << 14)
    value = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.round(255 * value).astype(np.uint8)

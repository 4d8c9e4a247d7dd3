"""How CLEVR's world is lit and what it is made of.

Colours, lamps and their jitter are CLEVR's. Powers, surroundings, albedos and backdrop were found by least squares
on the pixels of 30 Blender scenes, rendered with their own cameras. That fit cannot see what the lamps' jitter
blurs, since the scene files do not tell it: the lamps' radii, bounce, sheen, glare and gloss were set by eye and by
the distribution of bright and dark pixels. Over 200 scenes about 6 of 255 remain (root mean square). Light is linear
RGB; a white surface that faces a lamp of power 0.1 at the origin shows 0.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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

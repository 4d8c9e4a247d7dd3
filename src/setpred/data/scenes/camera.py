"""CLEVR's pinhole camera: where a point of the world falls in the 480x320 frame.

The constants are measured. Camera positions of 200 Blender scenes, one target and one focal length, fitted by
least squares to the scenes' `pixel_coords` and `directions`, gave a target within 0.006 of the origin, a focal
length of 34.9998 mm on a 32 mm sensor, positions filling a box of half-width 0.5 around `POSITION`, and pixels
within the half pixel that their rounding costs. `tests/data/test_scenes.py` repeats the measurement.
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

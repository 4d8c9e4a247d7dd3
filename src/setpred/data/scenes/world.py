"""Scenes by CLEVR's rules: what stands where, seen from where, lit from where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...kernels.jit import compiled
from . import render, studio
from .shapes import CUBE_BOUND, CYLINDER_BOUND

SIZES = {"large": 0.7, "small": 0.35}
SHAPES = ("cube", "sphere", "cylinder")
MATERIALS = ("rubber", "metal")
HALF_WIDTH = 3.0
MIN_GAP = 0.25
"""Between the circles around two objects."""
MIN_MARGIN = 0.4
"""Between two centres, along the camera's left and along its depth: "left of" and "behind" are then clear."""
MIN_PIXELS = 200
"""Of each object, visible in the 480x320 frame."""
TRIES = 50

_BOUNDS = np.array([CUBE_BOUND, 1.0, CYLINDER_BOUND])
# The visible pixels are counted in a coarser frame, the same for every image size: so is the scene then.
_COARSE = 4


@dataclass(frozen=True)
class Scene:
    """Objects as CLEVR's files describe them, and the places of the camera `[3]` and the three lamps `[3, 3]`."""

    objects: list[dict[str, Any]]
    camera: NDArray[np.float64]
    lamps: NDArray[np.float64]


def sample(seed: int, index: int, objects: tuple[int, int] = (3, 10)) -> Scene:
    """Scene `index` of `seed`, always the same one, with a number of objects in the closed range `objects`.

    >>> [thing["shape"] for thing in sample(0, 0, (3, 3)).objects]
    ['cylinder', 'sphere', 'cylinder']
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, index]))
    position = np.array(studio.POSITION) + rng.uniform(-studio.JITTER, studio.JITTER, 3)
    lamps = studio.LAMP_PLACES[:3] + rng.uniform(-studio.LAMP_JITTER, studio.LAMP_JITTER, (3, 3))
    count = int(rng.integers(objects[0], objects[1] + 1))
    view = studio.axes(position)
    while True:
        things = _place(rng, count, view)
        if things is not None and visible_pixels(things, position).min() >= MIN_PIXELS:
            return Scene(with_pixels(things, position), position, lamps)


def arrange(objects: Sequence[dict[str, Any]], position: ArrayLike = studio.POSITION) -> Scene:
    """A scene of given objects, such as a model's prediction, in the middle of the camera's and lamps' jitter.

    An object without a `rotation` stands square to the axes.
    """
    place = np.asarray(position, dtype=np.float64)
    things = [{"rotation": 0.0, **thing} for thing in objects]
    return Scene(with_pixels(things, place), place, studio.LAMP_PLACES[:3].copy())


def solid_rows(objects: Sequence[dict[str, Any]]) -> NDArray[np.float64]:
    """Objects for the tracer: `[objects, 12]`."""
    rows = np.zeros((len(objects), 12))
    for row, thing in zip(rows, objects, strict=True):
        kind, size, turn = SHAPES.index(thing["shape"]), SIZES[thing["size"]], np.deg2rad(thing["rotation"])
        row[:3] = thing["3d_coords"]
        row[3:8] = size, np.cos(turn), np.sin(turn), kind, size * _BOUNDS[kind]
        row[8:11] = np.array(studio.COLORS[thing["color"]]) / 255
        row[11] = thing["material"] == "metal"
    return rows


def visible_pixels(objects: Sequence[dict[str, Any]], position: ArrayLike) -> NDArray[np.int64]:
    """How many pixels of the 480x320 frame show each object `[objects]`, to about 16 pixels."""
    ids = shown(objects, position, studio.WIDTH // _COARSE, studio.HEIGHT // _COARSE)
    return np.bincount(ids[ids >= 0], minlength=len(objects)) * _COARSE**2


def shown(objects: Sequence[dict[str, Any]], position: ArrayLike, width: int, height: int) -> NDArray[np.int64]:
    """The object that each pixel shows, negative where it is none: `[height, width]`."""
    ids = np.empty((height, width), dtype=np.int64)
    render.identify(solid_rows(objects), np.asarray(position), studio.axes(position), ids, np.empty(ids.shape))
    return ids


def with_pixels(objects: Sequence[dict[str, Any]], position: ArrayLike) -> list[dict[str, Any]]:
    """The objects with their `pixel_coords`: whole pixels, and the depth."""
    if not objects:
        return []
    places = studio.project([thing["3d_coords"] for thing in objects], position).tolist()
    return [
        {**thing, "pixel_coords": [round(column), round(row), depth]}
        for thing, (column, row, depth) in zip(objects, places, strict=True)
    ]


def _place(rng: np.random.Generator, count: int, view: NDArray[np.float64]) -> list[dict[str, Any]] | None:
    """`count` objects that keep their distances, or None where one finds no place."""
    taken = np.empty((count, 3))
    things: list[dict[str, Any]] = []
    for n in range(count):
        size = ("large", "small")[rng.integers(2)]
        places = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (TRIES, 2))
        free = _first_free(places, SIZES[size], taken[:n], view[0])
        if free < 0:
            return None
        taken[n] = *places[free], SIZES[size]
        things.append(
            {
                "shape": SHAPES[rng.integers(3)],
                "size": size,
                "material": MATERIALS[rng.integers(2)],
                "color": tuple(studio.COLORS)[rng.integers(8)],
                "3d_coords": taken[n].tolist(),
                "rotation": float(rng.uniform(0, 360)),
            }
        )
    return things


@compiled
def _first_free(places, radius, taken, right):
    """The first of `places` `[tries, 2]` that is clear of all `taken` `[objects, 3]`, or -1."""
    for i in range(places.shape[0]):
        clear = True
        for j in range(taken.shape[0]):
            dx, dy = places[i, 0] - taken[j, 0], places[i, 1] - taken[j, 1]
            clear = (
                clear
                and abs(dx * right[0] + dy * right[1]) >= MIN_MARGIN
                and abs(dy * right[0] - dx * right[1]) >= MIN_MARGIN
                and hypot(dx, dy) - radius - taken[j, 2] >= MIN_GAP
            )
        if clear:
            return i
    return -1

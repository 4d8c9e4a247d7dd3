"""Scenes to images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import camera, look, render
from .world import Scene, solid_rows

_SRGB = look.srgb_table()


def picture(scene: Scene, size: int | tuple[int, int] = 128) -> NDArray[np.uint8]:
    """The image of a scene `[height, width, 3]`.

    A square `size` holds the whole 3:2 frame, squeezed, as when CLEVR's images are resized to a square; a pair is
    (width, height).
    """
    width, height = (size, size) if isinstance(size, int) else size
    image = np.empty((height, width, 3), dtype=np.uint8)
    view = camera.axes(scene.camera)
    render.trace(solid_rows(scene.objects), look.lamp_rows(scene.lamps), scene.camera, view, _SRGB, image)
    return image

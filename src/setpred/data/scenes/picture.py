"""Scenes to images, one or many."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from setpred.data.scenes import camera, look, render
from setpred.data.scenes.world import Scene, solid_rows

_SRGB = look.srgb_table()

Argument = TypeVar("Argument")
Result = TypeVar("Result")


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


def in_threads(
    work: Callable[[Argument], Result], arguments: Iterable[Argument], workers: int | None = None
) -> Iterator[Result]:
    """`map(work, arguments)` over the cores, in order; the tracer leaves Python's lock free while it works.

    Only a few results are held at a time, however many arguments there are.
    """
    workers = workers or os.cpu_count() or 1
    waiting = iter(arguments)
    with ThreadPoolExecutor(workers) as pool:
        pending = [pool.submit(work, argument) for argument in islice(waiting, 4 * workers)]
        while pending:
            yield pending.pop(0).result()
            pending += [pool.submit(work, argument) for argument in islice(waiting, 1)]

"""Images of any shape on a canvas of one shape: scaled as a whole, never stretched, and put in its top left corner.

A size is a width and a height in pixels. Places on the canvas are those of the image times a number, which `pixel_on`
tells; nothing is added to them.
"""

import math
from collections.abc import Iterable

Size = tuple[int, int]


def scale_on(canvas: Size, size: Size) -> float:
    """Pixels of the canvas for each pixel of an image of this size.

    >>> scale_on((64, 64), (640, 480))
    0.1
    """
    return min(canvas[0] / size[0], canvas[1] / size[1])


def pixel_on(canvas: Size, size: Size) -> float:
    """The fraction of the canvas's longer side that a pixel of an image of this size covers.

    >>> pixel_on((64, 43), (640, 320)) == 1 / 640
    True
    """
    return scale_on(canvas, size) / max(canvas)


def shared_canvas(longer: int, sizes: Iterable[Size]) -> Size:
    """The smallest canvas that holds images of all these sizes when the longer side of each is scaled to `longer`.

    >>> shared_canvas(96, [(300, 200), (30, 20)]), shared_canvas(96, [(300, 200), (20, 20)])
    ((96, 64), (96, 96))
    """
    shapes = [(width / max(width, height), height / max(width, height)) for width, height in sizes]
    # A little less than a whole pixel more is a rounding error.
    width, height = (math.ceil(longer * max(side) - 1e-6) for side in zip(*shapes, strict=True))
    return max(1, width), max(1, height)

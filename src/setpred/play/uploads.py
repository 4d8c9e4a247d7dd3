"""Pictures that visitors send, which are checked before they are decoded and never kept."""

import io

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from ..data.inputs import FORMATS, as_seen
from ..errors import UsageError

MAX_BYTES = 8_000_000
MAX_SIDE = 4096
SURROUNDINGS = (110, 110, 110)
"""The colour of the bars."""


def read_upload(content: bytes, shown: tuple[int, int] = (480, 320)) -> Image.Image:
    """The picture in `content`, small, in a frame of another shape with bars beside it.

    Anything else gets a line that says what is wrong.

    Its kind is taken from its first bytes, never from its name. What a file claims to hold is compared with the
    limits before a pixel is decoded, so that a small file cannot ask for a large memory.
    """
    if len(content) > MAX_BYTES:
        raise UsageError(f"the file has {len(content) / 1e6:.1f} MB: up to {MAX_BYTES // 1_000_000} MB can be read")
    _look(content)
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            image.draft("RGB", shown)  # a JPEG is decoded at a fraction of its size
            ImageOps.exif_transpose(image, in_place=True)
            scale = min(side / own for side, own in zip(shown, image.size, strict=True))
            width, height = (max(1, round(scale * own)) for own in image.size)
            frame = Image.new("RGB", shown, SURROUNDINGS)
            frame.paste(as_seen(image, (width, height)), ((shown[0] - width) // 2, (shown[1] - height) // 2))
            return frame
    except Exception as error:  # decoders of damaged files raise nearly anything
        raise UsageError(f"the picture is damaged ({type(error).__name__}): try another one") from None


def as_input(image: Image.Image, size: tuple[int, int]) -> Tensor:
    """What a model sees of a picture, (width, height) in pixels: `[1, 3, height, width]` in bytes."""
    small = image.resize(size, Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(small)).permute(2, 0, 1)[None].contiguous()


def _look(content: bytes) -> None:
    """Refuse what is no picture or too large a one, by its header and the checks of its format."""
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            if max(width, height) <= MAX_SIDE:
                image.verify()
    except Image.DecompressionBombError:
        raise UsageError(f"the picture has far too many pixels: up to {MAX_SIDE} a side can be read") from None
    except Exception:
        raise UsageError(f"this is not a whole picture: use an undamaged {', '.join(FORMATS)} file") from None
    if max(width, height) > MAX_SIDE:
        raise UsageError(f"the picture has {width}×{height} pixels: up to {MAX_SIDE} a side can be read")

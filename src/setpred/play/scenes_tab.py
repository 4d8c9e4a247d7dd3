"""Scenes, rendered here or sent by visitors: the objects found at every iteration, and the truth where it is known."""

import io
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from ..data.clevr import CLEVR_SCHEMA
from ..data.inputs import FORMATS, as_seen
from ..data.scenes import Scenes, picture
from ..errors import UsageError
from ..image_reader import ImageReader
from ..views.scenes import FRAME, iterates, scene_state
from ..views.view import data_address
from .zoo import pretrained

SEED = 8
"""Of the scenes shown, none of which was trained on."""
PIXELS = (192, 128)
STRANGE = 1.2
"""Of the images that the model was trained on, fewer than one in a hundred are as strange."""
MAX_BYTES = 8_000_000
MAX_SIDE = 4096
SURROUNDINGS = (110, 110, 110)
"""The colour of the bars beside a visitor's picture."""


def rendered_scene(index: int, steps: int) -> dict[str, Any]:
    """What is found in a scene that was not trained on."""
    scenes = Scenes(size=PIXELS, seed=SEED)
    scene, (image, truth, _) = scenes.scene(index), scenes[index]
    return {
        **scene_state(decoded(image[None], steps), truth, scene.camera),
        "image": data_address(Image.fromarray(_display(index))),
        "code": scene_code(SEED, index, steps),
    }


def uploaded_scene(content: bytes, steps: int) -> dict[str, Any]:
    """What is found in a visitor's picture, of which nothing is kept."""
    image = read_upload(content, FRAME)
    inputs = as_input(image, PIXELS)
    return {
        **scene_state(decoded(inputs, steps)),
        "strange": is_strange(inputs),
        "image": data_address(image),
        "code": upload_code(steps),
    }


@torch.no_grad()
def decoded(inputs: Tensor, steps: int) -> Tensor:
    """The set that is read from an image, encoded to a vector and found again from noise: `[iterates, 10, 19]`."""
    read, _ = CLEVR_SCHEMA.encode_batch(pretrained("scenes").predict(inputs))
    return iterates(pretrained("scene-sets"), read, steps)


def is_strange(inputs: Tensor) -> bool:
    """Whether an image looks unlike those that the model was trained on."""
    model = pretrained("scenes")
    assert isinstance(model.encoder, ImageReader)
    return bool(model.encoder.strangeness(model.prepared(inputs)) > STRANGE)


@lru_cache(maxsize=32)
def _display(index: int) -> np.ndarray:
    return picture(Scenes(seed=SEED).scene(index), FRAME)


def scene_code(seed: int, index: int, steps: int) -> str:
    return f"""\
from setpred.data.scenes import Scenes
from setpred.play import pretrained

reader, sets = pretrained("scenes"), pretrained("scene-sets")
image, truth, _ = Scenes(size=(192, 128), seed={seed})[{index}]
(objects,) = reader.predict(image[None])  # read from the image
for thing in objects:
    print(thing)

z = sets.encode(reader.schema.encode_batch([objects])[0])  # the set as one vector, to be found again from noise
solution = sets.decoder.solve(z, steps={steps}, trace=True)  # every iterate
"""


def upload_code(steps: int) -> str:
    return f"""\
from pathlib import Path
from setpred.data.inputs import read_image
from setpred.play import pretrained

reader, sets = pretrained("scenes"), pretrained("scene-sets")
image = read_image(Path("your-picture.png"), size=(192, 128))
print("strangeness", reader.encoder.strangeness(image[None]).item())  # above 1: unlike what it was trained on
(objects,) = reader.predict(image[None])
for thing in objects:
    print(thing)

z = sets.encode(reader.schema.encode_batch([objects])[0])  # the set as one vector, to be found again from noise
solution = sets.decoder.solve(z, steps={steps}, trace=True)  # every iterate
"""


def read_upload(content: bytes, shown: tuple[int, int] = (480, 320)) -> Image.Image:
    """The picture in `content`, small, in a frame of another shape with bars beside it.

    Anything else gets a line that says what is wrong.

    Its kind is taken from its first bytes, never from its name. What a file claims to hold is compared with the
    limits before a pixel is decoded, so that a small file cannot ask for a large memory.
    """
    if len(content) > MAX_BYTES:
        raise UsageError(f"the file has {len(content) / 1e6:.1f} MB: up to {MAX_BYTES // 1_000_000} MB can be read")
    _check_picture(content)
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


def _check_picture(content: bytes) -> None:
    """Refuse what is no picture or too large a one, by its header and the checks of its format."""
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            if max(width, height) <= MAX_SIDE:
                image.verify()
    except Image.DecompressionBombError:
        raise UsageError(f"the picture has far too many pixels: up to {MAX_SIDE} per side can be read") from None
    except Exception:
        raise UsageError(f"this is not a whole picture: use an undamaged {', '.join(FORMATS)} file") from None
    if max(width, height) > MAX_SIDE:
        raise UsageError(f"the picture has {width}×{height} pixels: up to {MAX_SIDE} per side can be read")

"""Scenes: an image, the objects found in it at every iteration, and the truth where it is known."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..data.clevr import CLEVR_SCHEMA
from ..data.scenes import Scenes, picture
from ..image_reader import ImageReader
from ..views.scenes import FRAME, iterates, scene_state
from ..views.view import data_address
from .snippets import scene_code, upload_code
from .uploads import as_input, read_upload
from .zoo import pretrained

SEED = 8
"""Of the scenes shown, none of which was trained on."""
PIXELS = (192, 128)
STRANGE = 1.2
"""Of the images that the model was trained on, fewer than one in a hundred are as strange."""


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

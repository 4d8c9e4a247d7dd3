"""Scenes: an image, the objects found in it at every iteration, and the truth where it is known."""

import base64
import io
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from PIL import Image
from torch import Tensor

from ..data.clevr import CLEVR_SCHEMA
from ..data.scenes import Scenes, camera, picture
from ..matching import COSTS, assign
from ..predictor import SetPredictor
from ..schema import Category
from .plain import numbers
from .pretrained import pretrained
from .snippets import scene_code, upload_code
from .uploads import as_input, read_upload

SEED = 8
"""Of the scenes shown, none of which was trained on."""
PIXELS = 64
FRAME = (camera.WIDTH, camera.HEIGHT)
ATTRIBUTES = {name: field for name, field in CLEVR_SCHEMA.fields.items() if isinstance(field, Category)}


def rendered_scene(index: int, steps: int) -> dict[str, Any]:
    """What the model makes of a scene of its own world."""
    scenes = Scenes(size=PIXELS, seed=SEED)
    scene, (image, truth, _) = scenes.scene(index), scenes[index]
    return {
        **scene_state(pretrained("scenes"), image[None], steps, truth, scene.camera),
        "image": data_address(Image.fromarray(_display(index))),
        "code": scene_code(SEED, index, steps),
    }


def uploaded_scene(content: bytes, steps: int) -> dict[str, Any]:
    """What the model makes of a visitor's picture, of which nothing is kept."""
    image = read_upload(content, FRAME)
    return {
        **scene_state(pretrained("scenes"), as_input(image, PIXELS), steps),
        "image": data_address(image),
        "code": upload_code(steps),
    }


@torch.no_grad()
def scene_state(
    model: SetPredictor,
    inputs: Tensor,
    steps: int,
    truth: Tensor | None = None,
    position: ArrayLike = camera.POSITION,
) -> dict[str, Any]:
    """Objects at every iteration, for the page; `inputs` is one example, `truth` `[10, 19]`."""
    if model.decoder is None:
        sets = model(inputs)
    else:
        way = model.decoder.solve(model.encode(inputs), steps=steps, trace=True).trace
        assert way is not None
        sets = way.sets[:, 0]
    sets = sets.nan_to_num(0.0, 1e3, -1e3).clamp(-1e3, 1e3)
    towards = camera.directions(position)
    state = {
        "frame": FRAME,
        "turn": [towards["right"][:2], towards["behind"][:2]],
        "attributes": {name: list(field.names) for name, field in ATTRIBUTES.items()},
        "iterates": described(sets, position),
        "truth": None,
    }
    if truth is not None:
        pairs = assign(COSTS["huber"](sets[:, :, None], truth[None, None])).target
        state |= {"truth": described(truth[None], position), "pairs": pairs.tolist()}
    return state


def described(sets: Tensor, position: ArrayLike) -> dict[str, Any]:
    """Elements `[iterates, 10, 19]` by what they say: place, pixel, presence, attributes and how sure they are."""
    places = CLEVR_SCHEMA.position(sets)
    sure = [field.probability(sets[..., CLEVR_SCHEMA.slices[name]]) for name, field in ATTRIBUTES.items()]
    return {
        "places": numbers(places, 3),
        "pixels": numbers(torch.from_numpy(camera.project(places.double().numpy(), position)[..., :2]), 1),
        "presence": numbers(CLEVR_SCHEMA.confidence(sets), 3),
        "attributes": CLEVR_SCHEMA.attributes(sets).tolist(),
        "sure": numbers(torch.stack(sure, dim=-1), 2),
    }


def data_address(image: Image.Image) -> str:
    """A picture as an address that holds it."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


@lru_cache(maxsize=32)
def _display(index: int) -> np.ndarray:
    return picture(Scenes(seed=SEED).scene(index), FRAME)

"""Rendered scenes: as images, as a dataset that is endless if wished, and as files in CLEVR's layout."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from ...files import replacing
from ..clevr import CLEVR_SCHEMA
from ..inputs import in_threads
from . import render, studio
from .world import Scene, sample, solid_rows

Progress = Callable[[int, int], None]
_SRGB = studio.srgb_table()


def picture(scene: Scene, size: int | tuple[int, int] = 128) -> NDArray[np.uint8]:
    """The image of a scene `[height, width, 3]`.

    A square `size` holds the whole 3:2 frame, squeezed, as when CLEVR's images are resized to a square; a pair is
    (width, height).
    """
    width, height = (size, size) if isinstance(size, int) else size
    image = np.empty((height, width, 3), dtype=np.uint8)
    view = studio.axes(scene.camera)
    render.trace(solid_rows(scene.objects), studio.lamp_rows(scene.lamps), scene.camera, view, _SRGB, image)
    return image


class Scenes(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Scene i of a seed, rendered when asked for: image `[3, height, width]`, sets `[10, 19]`, mask `[10]`.

    Without a `count` there is no last one, and no length. Scene i is the same for every image size. A `size` of one
    number is a square into which the 3:2 frame is squeezed, as published; a pair is (width, height).

    >>> image, sets, mask = Scenes(size=16, objects=(4, 4))[7]
    >>> image.shape, sets.shape, int(mask.sum())
    (torch.Size([3, 16, 16]), torch.Size([10, 19]), 4)
    """

    def __init__(
        self,
        count: int | None = None,
        size: int | tuple[int, int] = 128,
        seed: int = 0,
        objects: tuple[int, int] = (3, 10),
    ) -> None:
        if not 1 <= objects[0] <= objects[1] <= CLEVR_SCHEMA.size:
            raise ValueError(f"objects is {objects}: give a range (fewest, most) within 1 to {CLEVR_SCHEMA.size}")
        width, height = (size, size) if isinstance(size, int) else size
        if min(width, height) < 1 or seed < 0 or (count is not None and count < 0):
            raise ValueError(f"size {size}, seed {seed}, count {count}: none may be negative, nor size zero")
        self.count, self.size, self.seed, self.objects = count, (width, height), seed, objects

    def __len__(self) -> int:
        if self.count is None:
            raise TypeError("Scenes without a count are endless: give Scenes(count=...) for a length")
        return self.count

    def scene(self, index: int) -> Scene:
        """What is in image `index`."""
        if index < 0 or (self.count is not None and index >= self.count):
            raise IndexError(f"scene {index} of {self.count if self.count is not None else 'endless'} scenes")
        return sample(self.seed, int(index), self.objects)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        scene = self.scene(index)
        sets, mask = CLEVR_SCHEMA.encode_batch([scene.objects])
        image = torch.from_numpy(picture(scene, self.size)).permute(2, 0, 1).contiguous()
        return image.float() / 255, sets[0], mask[0]

    def batch(self, indices: Sequence[int], workers: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Many at once on all cores: images `[n, 3, height, width]` in bytes, sets `[n, 10, 19]`, mask `[n, 10]`."""
        images = np.empty((len(indices), *self.size[::-1], 3), dtype=np.uint8)
        objects = []

        def make(index: int) -> tuple[Scene, np.ndarray]:
            scene = self.scene(index)
            return scene, picture(scene, self.size)

        for i, (scene, image) in enumerate(in_threads(make, indices, workers)):
            images[i] = image
            objects.append(scene.objects)
        sets, mask = CLEVR_SCHEMA.encode_batch(objects)
        return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), sets, mask


def write(
    out: str | Path,
    count: int,
    size: int = 128,
    seed: int = 0,
    split: str = "train",
    objects: tuple[int, int] = (3, 10),
    workers: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Render `count` scenes into the new folder `out`: `images/{split}/…png`, `scenes/CLEVR_{split}_scenes.json`.

    A further split may go beside those already there; a split is never overwritten, and appears only when it is
    complete. `progress` is called with how many are done and how many there are.
    """
    out = Path(out)
    images, listing = out / "images" / split, out / "scenes" / f"CLEVR_{split}_scenes.json"
    if not split.isidentifier():
        raise ValueError(f"split {split!r} is no name for a folder: use letters, such as train or val")
    if images.exists() or listing.exists():
        raise ValueError(f"{out} already holds the split {split}: choose another folder or split")
    if out.exists() and not (out.is_dir() and {entry.name for entry in out.iterdir()} <= {"images", "scenes"}):
        raise ValueError(f"{out} exists and is no CLEVR folder: choose a new folder")
    _check_other_splits(listing.parent, seed)
    images.parent.mkdir(parents=True, exist_ok=True)
    listing.parent.mkdir(exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{split}-", dir=images.parent))
    unfinished.chmod(0o755)
    try:
        save = partial(_save, unfinished, split, seed, size, objects)
        scenes = []
        for scene in in_threads(save, range(count), workers):
            scenes.append(scene)
            if progress is not None:
                progress(len(scenes), count)
        text = json.dumps({"info": {"split": split, "version": "1.0", "seed": seed}, "scenes": scenes})
        with replacing(listing) as temporary:
            temporary.write_text(text, encoding="utf-8")
            unfinished.replace(images)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return out


def _check_other_splits(listings: Path, seed: int) -> None:
    """Raise where a split of the same seed lies there: the new one would begin with the same scenes."""
    for path in listings.glob("CLEVR_*_scenes.json"):
        try:
            info = json.loads(path.read_text(encoding="utf-8"))["info"]
        except (ValueError, KeyError, TypeError):  # not one of ours
            continue
        if info.get("seed") == seed:
            raise ValueError(f"{path} holds the scenes of seed {seed} already: give this split another seed")


def _save(folder: Path, split: str, seed: int, size: int, objects: tuple[int, int], index: int) -> dict[str, Any]:
    """Render one scene into `folder`; its entry in the list of scenes."""
    from PIL import Image

    scene = sample(seed, index, objects)
    name = f"CLEVR_{split}_{index:06d}.png"
    Image.fromarray(picture(scene, size)).save(folder / name, compress_level=3)  # 6 takes a third of all the time
    return {
        "split": split,
        "image_index": index,
        "image_filename": name,
        "directions": studio.directions(scene.camera),
        "camera": scene.camera.tolist(),
        "objects": scene.objects,
    }

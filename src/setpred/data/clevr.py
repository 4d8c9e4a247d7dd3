"""CLEVR: images and the sets of objects in them, read from the official layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..schema import Category, Real, Schema
from ..values import short
from .inputs import path_inside, read_image

CLEVR_SCHEMA = Schema(
    {
        "3d_coords": Real(3, scale=3),
        "material": Category("rubber", "metal"),
        "color": Category("cyan", "blue", "yellow", "purple", "red", "green", "gray", "brown"),
        "shape": Category("sphere", "cylinder", "cube"),
        "size": Category("large", "small"),
    },
    size=10,
)
"""An object of CLEVR in 19 numbers, the last one its presence."""


class CLEVR(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """A split of CLEVR: image `[3, height, width]` in [0, 1], sets `[10, 19]`, mask `[10]` of the objects there are.

    The scenes are read once, into `sets` `[scenes, 10, 19]` and `mask` `[scenes, 10]`, which serve alone where no
    image is needed; an image is read when it is asked for, and may have any size and shape in its file.

    Args:
        root: the folder that holds `images/` and `scenes/`.
        split: `train`, `val` or another name that its files carry.
        size: pixels a side of the images returned, which are then stretched to a square, or their (width, height).
    """

    sets: Tensor
    mask: Tensor

    def __init__(self, root: str | Path, split: str = "train", size: int | tuple[int, int] = 128) -> None:
        self.root, self.split, self.size = Path(root), split, size
        if not self.root.is_dir():
            raise ValueError(f"{self.root} is not a folder: give the one that holds CLEVR's images/ and scenes/")
        listing = self.root / "scenes" / f"CLEVR_{split}_scenes.json"
        scenes = _read(listing)
        encoded, names = [], []
        for i, scene in enumerate(scenes):
            try:
                encoded.append(CLEVR_SCHEMA.encode(scene["objects"]))
                names.append(_file_name(scene["image_filename"]))
            except (KeyError, TypeError):
                raise ValueError(
                    f"{listing}, scene {i}: needs objects and an image_filename: is it CLEVR's file?"
                ) from None
            except ValueError as error:
                raise ValueError(f"{listing}, scene {i}: {error}") from None
        self.sets = torch.stack(encoded) if encoded else torch.zeros(0, CLEVR_SCHEMA.size, CLEVR_SCHEMA.dim)
        self.mask = self.sets[..., -1] > 0
        # An array of text is one block of memory, which worker processes share.
        self.names = np.array(names, dtype=str)

    def __len__(self) -> int:
        return len(self.sets)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(f"scene {index} of {len(self)} scenes")
        return self.image(index), self.sets[index], self.mask[index]

    def image(self, index: int) -> Tensor:
        """Image `index` `[3, height, width]` in [0, 1]."""
        folder = self.root / "images" / self.split
        try:
            return read_image(path_inside(folder, str(self.names[index])), self.size)
        except ValueError as error:
            raise ValueError(f"{folder}, scene {index}: {error}") from None


def _read(listing: Path) -> list[dict[str, Any]]:
    """The scenes of a file, without the parts that no one here reads and that are most of it."""

    def keep(item: dict[str, Any]) -> dict[str, Any]:
        item.pop("relationships", None)
        item.pop("directions", None)
        return item

    try:
        with listing.open(encoding="utf-8") as file:
            content = json.load(file, object_hook=keep)
    except FileNotFoundError:
        raise ValueError(f"{listing} is missing: is the split right, and the folder CLEVR's?") from None
    except OSError as error:
        raise ValueError(f"{listing} cannot be read ({error.strerror}): check the file") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{listing} is not complete JSON ({error}): copy or download it again") from None
    if not isinstance(content, dict) or not isinstance(content.get("scenes"), list):
        raise ValueError(f"{listing} has no list of scenes: is it CLEVR's file?")
    return content["scenes"]


def _file_name(name: Any) -> str:
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise ValueError(f"image_filename is {short(name)}: give a file name without folders")
    return name

"""Rendered scenes as a dataset, endless if wished."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..clevr import CLEVR_SCHEMA
from ..threads import in_threads
from .picture import picture
from .world import Scene, sample


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

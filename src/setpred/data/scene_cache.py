"""Scenes as arrays on disk: rendered or read once, then mapped into memory by every run that asks for them.

A folder of the cache holds `sets.npy` and, for each image size, `images-SIZE.npy` in bytes.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from glob import escape
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from ..errors import UsageError, usage_errors
from ..files import cache_folder, replacing
from ..kernels.jit import sources_hash
from . import scenes as renderer
from .clevr import CLEVR, CLEVR_SCHEMA
from .inputs import in_threads
from .scenes import Scenes
from .scenes.studio import HEIGHT, WIDTH
from .synthetic import mixed_seed

RENDERED = "scenes"
SPLITS = ("train", "val")
BLOCK = 64

Make = Callable[[range], Tensor]


@dataclass(frozen=True)
class SceneSplit:
    """The first `count` scenes of a split of `source`: `scenes`, which are rendered, or a folder in CLEVR's layout."""

    source: str
    split: str
    count: int
    size: int
    stretched: bool = True
    """Whether images are squares of `size`, as published; else `size` is the width of CLEVR's 3:2 frame."""

    def __post_init__(self) -> None:
        if self.count < 1 or self.size < 1:
            raise UsageError(
                f"{self.count} scenes of {self.size} pixels: data.train, data.test and data.size start at 1"
            )

    def sets(self) -> Tensor:
        """`[count, 10, 19]`."""
        if self.source == RENDERED:
            scenes = self.rendered()
            shape = (CLEVR_SCHEMA.size, CLEVR_SCHEMA.dim)

            def encode(part: range) -> Tensor:
                return CLEVR_SCHEMA.encode_batch(scenes.scene(i).objects for i in part)[0]

            return self._stored("sets", "arranging", shape, "<f4", encode)
        return self._files.sets[: self.count]

    def images(self) -> Tensor:
        """`[count, 3, height, width]` in bytes."""
        width, height = self.frame
        shape, name = (3, height, width), f"images-{width}" if width == height else f"images-{width}x{height}"
        if self.source == RENDERED:
            scenes = self.rendered()
            return self._stored(name, "rendering", shape, "|u1", lambda part: scenes.batch(part)[0])
        files = self._files

        def read(part: range) -> Tensor:
            with usage_errors():
                return torch.stack([(255 * image).round().byte() for image in in_threads(files.image, part)])

        return self._stored(name, "reading", shape, "|u1", read)

    @property
    def frame(self) -> tuple[int, int]:
        """Width and height of the images."""
        return (self.size, self.size if self.stretched else max(1, round(self.size * HEIGHT / WIDTH)))

    def rendered(self) -> Scenes:
        """The scenes behind a rendered split, the same for every size and count."""
        return Scenes(size=self.frame, seed=mixed_seed(SPLITS.index(self.split)))

    @cached_property
    def _files(self) -> CLEVR:
        try:
            files = CLEVR(self.source, self.split, self.frame)
        except ValueError as error:
            raise UsageError(f"data.source: {error}") from None
        if len(files) < self.count:
            name = "train" if self.split == "train" else "test"
            raise UsageError(
                f"{self.source} holds {len(files)} scenes of split {self.split}, {self.count} are requested: "
                f"set data.{name}={len(files)} or fewer"
            )
        return files

    def _stored(self, name: str, doing: str, shape: tuple[int, ...], dtype: str, make: Make) -> Tensor:
        """The array of that name, made where no folder holds one that is long enough."""
        origin = self._origin()
        fits = []
        for path in cache_folder().glob(f"{escape(origin)}-*/{name}.npy"):
            count = int(path.parent.name.rsplit("-", 1)[1])
            fits += [(count, path)] if count >= self.count else []
        if not fits:
            fits = [(self.count, cache_folder() / f"{origin}-{self.count}" / f"{name}.npy")]
            with replacing(fits[0][1]) as temporary:
                made = np.lib.format.open_memmap(temporary, "w+", dtype=dtype, shape=(self.count, *shape))
                _reserve(temporary)
                for part in _shown(f"{doing} {self.count:,} scenes", self.count):
                    made[part.start : part.stop] = make(part).numpy()
                made.flush()
        path = min(fits)[1]
        try:  # copy on write: torch wants arrays it could write to, and no one shall change what is stored
            stored = np.load(path, mmap_mode="c")
        except (ValueError, OSError, EOFError) as error:
            raise UsageError(f"{path} cannot be read ({error}): remove it, and it is made again") from None
        if stored.dtype != dtype or len(stored) < self.count or stored.shape[1:] != shape:
            raise UsageError(f"{path} is not what its name says: remove it, and it is made again")
        return torch.from_numpy(stored[: self.count])

    def _origin(self) -> str:
        """A name that changes when the scenes would: with the code of the renderer, or the file of the scenes."""
        if self.source == RENDERED:
            name = RENDERED
            digest = sources_hash(Path(renderer.__file__).parent)  # the same that names the renderer's machine code
        else:
            root = Path(self.source).resolve()
            listing = (root / "scenes" / f"CLEVR_{self.split}_scenes.json").stat()
            name = root.name
            digest = hashlib.sha1(f"{root} {listing.st_size} {listing.st_mtime_ns}".encode()).hexdigest()
        return f"{name}-{self.split}-{digest[:8]}"


def _reserve(path: Path) -> None:
    """Take the space of a file now: a disk found full in the middle of a mapped array ends the process at once."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _shown(doing: str, count: int) -> Iterable[range]:
    """Blocks of the numbers below `count`, with a progress bar where they take a while."""
    blocks = [range(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
    return track(blocks, doing, console=Console(stderr=True), transient=True, disable=len(blocks) < 8)

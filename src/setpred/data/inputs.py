"""The input of an example: an image, a vector or a set, from a line of data to a tensor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..letterbox import Size, scale_on
from ..values import finite, short

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Kind = Literal["image", "vector", "set"]
KINDS: tuple[Kind, ...] = ("image", "vector", "set")
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
MAX_PIXELS = 50_000_000
ORIENTATION = 0x0112
"""The tag of EXIF that says how the camera was held; from 5 on the image lies on its side."""
FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Inputs:
    """What the inputs of a data set look like.

    | kind | `dim` | `size` | tensor |
    |---|---|---|---|
    | image | 3 | width of the canvas | [3, height, size] in [0, 1] |
    | vector | numbers | 1 | [dim] |
    | set | numbers per element | largest set | [size, dim + 1], the last number is 1 for elements and 0 for padding |

    Images are scaled as a whole to fit the canvas and lie in its top left corner. Without `height`, as in runs of older
    versions, they are stretched to squares instead.

    >>> Inputs("set", dim=2, size=3).read({"set": [[5, 6]]})
    tensor([[5., 6., 1.],
            [0., 0., 0.],
            [0., 0., 0.]])
    """

    kind: Kind
    dim: int
    size: int
    height: int | None = None

    @classmethod
    def of(cls, content: dict[str, Any]) -> Inputs:
        """The vectors or sets of which this line is an example."""
        kind = kind_of(content)
        rows = numbers(content, kind)
        return cls(kind, len(rows[0]) if rows else 0, len(rows))

    @property
    def shape(self) -> tuple[int, ...]:
        shapes = {
            "image": (3, self.canvas[1], self.canvas[0]),
            "vector": (self.dim,),
            "set": (self.size, self.dim + 1),
        }
        return shapes[self.kind]

    @property
    def canvas(self) -> Size:
        """Width and height of what images become."""
        return self.size, self.size if self.height is None else self.height

    def read(self, content: dict[str, Any], root: Path | None = None) -> Tensor:
        """The tensor of one line; `root` is the folder in which images are."""
        self.expect(kind_of(content))
        return self.read_image(image_path(content, root))[0] if self.kind == "image" else self._read_numbers(content)

    def read_image(self, path: Path) -> tuple[Tensor, Size]:
        """An image as a model gets it, and the size it has in its file."""
        if self.height is None:
            return read_image(path, self.size), self.canvas
        return read_letterboxed(path, self.canvas)

    def _read_numbers(self, content: dict[str, Any]) -> Tensor:
        rows = numbers(content, self.kind)
        if any(len(row) != self.dim for row in rows):
            wrong = next(len(row) for row in rows if len(row) != self.dim)
            raise ValueError(f"the {self.kind} has {wrong} numbers, others have {self.dim}: use one length")
        if self.kind == "vector":
            return torch.tensor(rows[0])
        if len(rows) > self.size:
            raise ValueError(f"the set has {len(rows)} elements, the largest can have {self.size}: shorten it")
        padded = torch.zeros(self.shape)
        if rows:
            padded[: len(rows), : self.dim] = torch.tensor(rows)
            padded[: len(rows), self.dim] = 1
        return padded

    def expect(self, kind: Kind) -> None:
        """Refuses another kind of input."""
        if kind != self.kind:
            raise ValueError(f"the input is {kind!r}, others have {self.kind!r}: use one kind of input")


def kind_of(content: dict[str, Any]) -> Kind:
    """Which of image, vector and set the line holds."""
    kinds = [kind for kind in KINDS if kind in content]
    if len(kinds) != 1:
        found = " and ".join(kinds) if kinds else "none"
        raise ValueError(f"one input is needed, found {found}: give an image, a vector or a set")
    return kinds[0]


def numbers(content: dict[str, Any], kind: Kind) -> list[list[float]]:
    """The rows of a vector (one) or a set (any number), all of one length."""
    value = content[kind]
    rows = [value] if kind == "vector" else value
    if not isinstance(rows, list) or not all(isinstance(row, list) and row for row in rows):
        shape = "a list of numbers" if kind == "vector" else "a list of lists of numbers"
        raise ValueError(f"the {kind} is {short(value)}: give {shape}")
    if len({len(row) for row in rows}) > 1:
        raise ValueError("the elements of the set differ in length: use one length")
    try:
        plain = [[finite(number) for number in row] for row in rows]
    except ValueError as error:
        raise ValueError(f"the {kind} holds a wrong number: {error}") from None
    if any(abs(number) > FLOAT32_MAX for row in plain for number in row):
        raise ValueError(f"the {kind} holds a number beyond 32 bits: scale it down")
    return plain


def path_inside(root: Path, name: Any) -> Path:
    """The path of a file that a data file names; a file outside `root` is refused."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"the image is {short(name)}: give its path in the data folder")
    try:
        path = (root / name).resolve()
        inside = path.is_relative_to(root.resolve()) and not Path(name).is_absolute()
        if max(map(len, path.parts)) > 255:
            raise ValueError("no file has so long a name")
    except (OSError, ValueError, RuntimeError):
        raise ValueError(f"the image {short(name)} is not a path: correct it") from None
    if not inside:
        raise ValueError(f"the image {short(name)} is outside the data folder: copy it in")
    return path


def image_path(content: dict[str, Any], root: Path | None) -> Path:
    """The file that a line of data names."""
    if root is None:
        raise ValueError("an image needs the folder it is in: pass root")
    return path_inside(root, content["image"])


def image_size(path: Path) -> Size:
    """Width and height of an image as a person sees it, from the header alone.

    A file that is missing, no image, or too large is refused.
    """
    with _open(path) as image:
        width, height = image.size
        try:
            # Where a PNG says nothing of its camera in front, all of it would be decoded to look behind.
            turned = (image.format != "PNG" or "exif" in image.info) and image.getexif().get(ORIENTATION, 1) >= 5
        except Exception:  # such as an orientation that is no number
            turned = False
    return (height, width) if turned else (width, height)


def read_image(path: Path, size: int | Size) -> Tensor:
    """An image, stretched to a square or to (width, height): [3, height, width], float32 in [0, 1]."""
    with _decoding(path) as image:
        return _tensor(as_seen(image, (size, size) if isinstance(size, int) else size))


def read_letterboxed(path: Path, canvas: Size) -> tuple[Tensor, Size]:
    """An image, scaled as a whole into the top left corner of a canvas, and the size it had.

    Args:
        path: the file.
        canvas: width and height.

    Returns:
        [3, height, width], float32 in [0, 1], zero where the image does not reach; and the image's width and height.
    """
    with _decoding(path) as image:
        upright = _upright(image)
        scale = scale_on(canvas, upright.size)
        width, height = (max(1, min(round(scale * old), new)) for old, new in zip(upright.size, canvas, strict=True))
        tensor = torch.zeros(3, canvas[1], canvas[0])
        tensor[:, :height, :width] = _tensor(_on_white(upright, (width, height)))
        return tensor, upright.size


def as_seen(image: Any, size: Size) -> Any:
    """An image as a person sees it, in RGB: turned as its EXIF says, and on white where it is transparent."""
    return _on_white(_upright(image), size)


def _upright(image: Any) -> Any:
    """In RGB, or RGBA where there are transparent parts, turned as the EXIF says."""
    from PIL import Image, ImageOps

    if image.mode.startswith("I"):  # 16-bit grey, which convert() would clip
        image = Image.fromarray((np.asarray(image) / 256).clip(0, 255).astype(np.uint8))
    ImageOps.exif_transpose(image, in_place=True)
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _on_white(image: Any, size: Size) -> Any:
    from PIL import Image

    seen = image.resize(size, Image.Resampling.BILINEAR)
    if seen.mode == "RGBA":
        seen = Image.alpha_composite(Image.new("RGBA", size, "white"), seen).convert("RGB")
    return seen


def _tensor(image: Any) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float() / 255


@contextmanager
def _decoding(path: Path) -> Iterator[Any]:
    """The image, open; where it cannot be decoded the error is one line."""
    with _open(path) as image:
        try:
            yield image
        except Exception as error:  # decoders of damaged files raise nearly anything
            raise ValueError(f"the image {path.name!r} is damaged ({short(str(error))}): replace it") from None


def _open(path: Path) -> Any:
    from PIL import Image

    try:
        # A device or a pipe would block or never end.
        if not path.is_file():
            raise ValueError(f"the image {os.path.relpath(path)!r} is missing: add the file or drop the line")
        image = Image.open(path, formats=FORMATS)
    except ValueError:
        raise
    except Exception as error:  # as above
        raise ValueError(
            f"the image {path.name!r} cannot be read ({type(error).__name__}): use {', '.join(FORMATS)}"
        ) from None
    if image.width * image.height > MAX_PIXELS:
        image.close()
        raise ValueError(f"the image {path.name!r} has {image.width}×{image.height} pixels: shrink it")
    return image


def in_threads(
    work: Callable[[Argument], Result], arguments: Iterable[Argument], workers: int | None = None
) -> Iterator[Result]:
    """`map(work, arguments)` over the cores, in order, for work that leaves Python's lock free, such as decoding.

    Only a few results are held at a time, however many arguments there are.
    """
    workers = workers or os.cpu_count() or 1
    waiting = iter(arguments)
    with ThreadPoolExecutor(workers) as pool:
        pending = [pool.submit(work, argument) for argument in islice(waiting, 4 * workers)]
        while pending:
            yield pending.pop(0).result()
            pending += [pool.submit(work, argument) for argument in islice(waiting, 1)]

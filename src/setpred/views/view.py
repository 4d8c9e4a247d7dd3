"""What a view is, what it shows, and tensors and pictures as JSON can hold them."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ..schema import Schema
from ..solution import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

Batch = tuple[Tensor, ...]


@dataclass
class Examples:
    """Test examples, and what a trained model predicts for them.

    Attributes:
        inputs: what the model saw, or None where that is the target itself.
        target: `[examples, size, dim]`; in numbering the numbers, `[examples, size]`.
        predicted: as `target`.
        error: of each example, `[examples]`: its loss, or how many of its elements are wrong.
        iterates: predicted sets by what they are called, where a view shows several.
        schema: what an element is, where it has one.
        sizes: widths and heights of images in their files, `[examples, 2]`, where they have such.
    """

    inputs: Tensor | None
    target: Tensor
    predicted: Tensor
    error: Tensor
    iterates: dict[str, Tensor] = field(default_factory=dict)
    schema: Schema | None = None
    sizes: Tensor | None = None


class Trained(Protocol):
    """What a view needs of an experiment."""

    settings: Any

    def sets(self, batch: Batch) -> Tensor: ...

    def trace(self, batch: Batch, steps: int) -> Trace | None: ...


class View:
    """How an example looks.

    Attributes:
        count: how many examples a report shows of a model.
        wide: whether its figures need the width of the page.
        has_losses: whether the error of an example is a loss, whose spread is worth a table.
    """

    count: int = 3
    wide: bool = False
    has_losses: bool = True

    def first(self, settings: Any) -> str:
        """The sentence over the first test examples in a report."""
        raise NotImplementedError

    def worst(self, settings: Any, among: str) -> str:
        """The sentence over the worst of `among` test examples."""
        raise NotImplementedError

    def draw(self, shown: Examples, chosen: Sequence[int], title: str, settings: Any) -> "Figure | str":
        """Some of the examples as a figure, or as HTML."""
        raise NotImplementedError

    def state(self, experiment: Any, batch: Batch, index: int, steps: int) -> dict[str, Any]:
        """What the playground draws of test example `index`, which is all of `batch`; its `kind` says how."""
        raise NotImplementedError


def numbers(values: Tensor, digits: int = 4) -> Any:
    """Nested lists, rounded; None for what is no finite number.

    >>> numbers(torch.tensor([[0.123456, torch.nan]]))
    [[0.1235, None]]
    """
    if values.isfinite().all():
        return values.double().round(decimals=digits).tolist()
    return _without_nan(values.double().round(decimals=digits).tolist())


def picture(image: Tensor) -> "Image":
    """An image `[3, height, width]`, in bytes or in [0, 1]."""
    from PIL import Image

    pixels = image if image.dtype == torch.uint8 else (255 * image).round().clamp(0, 255).byte()
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


def data_address(image: "Image") -> str:
    """A picture as an address that holds it."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _without_nan(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_nan(value) for value in values]
    return values if abs(values) < float("inf") else None

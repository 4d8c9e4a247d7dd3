"""A whole model: it turns an input into a vector, the vector into a set, and the set into a list of objects."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .decoder import SetDecoder
from .letterbox import Size, pixel_on
from .pretrained import Pretrained
from .schema import Schema
from .tensors import check_tensor


class Predictions(list[list[dict[str, Any]]]):
    """The objects of each input.

    `diverged` lists for each input whether its inner optimisation diverged. Its objects are then those of the best
    finite iterate."""

    def __init__(self, objects: Iterable[list[dict[str, Any]]], diverged: list[bool]):
        super().__init__(objects)
        self.diverged = diverged


class SetPredictor(Pretrained):
    """Predict objects from images, vectors or sets.

    Args:
        encoder: a module that maps inputs to vectors `[batch, latent]`: `ImageEncoder`, `VectorEncoder`,
            `SetEncoder` or one of your own.
        decoder: maps vectors to sets; None if the encoder returns sets itself, as `SlotAttention` does.
        schema: what an element is.

    Example:
        >>> import setpred as sp
        >>> schema = sp.Schema({"at": sp.Real(2, range=(0, 10)), "kind": sp.Category("cat", "dog")}, size=3)
        >>> inner = sp.SetEncoder(schema.dim, hidden=16, latent=8, size=schema.size)
        >>> decoder = sp.iDSPN(inner)
        >>> predictor = SetPredictor(sp.VectorEncoder(dim=4, hidden=16, latent=8), decoder, schema)
        >>> predictor(torch.randn(2, 4)).shape
        torch.Size([2, 3, 5])
        >>> first, second = predictor.predict(torch.randn(2, 4), threshold=-1.0)
        >>> sorted(first[0])
        ['at', 'confidence', 'kind']
    """

    def __init__(self, encoder: nn.Module, decoder: SetDecoder | None, schema: Schema):
        super().__init__()
        if decoder is not None and (decoder.size, decoder.dim) != (schema.size, schema.dim):
            raise ValueError(
                f"the decoder makes sets of {[decoder.size, decoder.dim]}, the schema describes "
                f"{[schema.size, schema.dim]}: build it with size=schema.size, dim=schema.dim"
            )
        self.encoder, self.decoder, self.schema = encoder, decoder, schema

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sets `[batch, size, dim]` in the schema's encoding.

        Args:
            inputs: images `[batch, 3, height, width]` (bytes, or numbers in [0, 1]), vectors `[batch, numbers]`, or
                sets `[batch, elements, numbers]`.
            mask: which elements of input sets exist, `[batch, elements]`.
        """
        encoded = self.encode(inputs, mask)
        return encoded if self.decoder is None else self.decoder(encoded)

    def encode(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """The encodings of the inputs: the vectors `[batch, latent]` that sets are decoded from."""
        inputs = self.prepared(inputs)
        return self.encoder(inputs) if mask is None else self.encoder(inputs, mask.to(inputs.device))

    def prepared(self, inputs: Tensor) -> Tensor:
        """The inputs on the device and in the dtype of the model; bytes become numbers in [0, 1]."""
        check_tensor("the input", inputs)
        numbers = inputs.to(next(self.parameters()))
        return numbers / 255 if inputs.dtype == torch.uint8 else numbers

    @torch.no_grad()
    def predict(
        self,
        inputs: Tensor,
        steps: int | None = None,
        threshold: float = 0.5,
        mask: Tensor | None = None,
        sizes: Sequence[Size] | None = None,
    ) -> Predictions:
        """The objects of each input, in the units of the schema, each with its `confidence`.

        If inner optimisations diverge, a warning says how many, and `.diverged` of the result says which.

        Args:
            inputs: as in `forward`.
            steps: inner iterations, instead of the number in the solver.
            threshold: elements whose presence is at least this count as objects.
            mask: as in `forward`.
            sizes: width and height of each original image, before it was scaled into the top left corner of the canvas
                that is passed here. Positions in pixels then refer to the original image, and otherwise to the canvas.
        """
        if steps is not None and self.decoder is None:
            raise ValueError(f"{type(self.encoder).__name__} has no inner iterations: leave steps out")
        modes = {module: module.training for module in self.modules()}
        self.eval()
        try:
            sets = self.encode(inputs, mask)
            diverged = [False] * len(sets)
            if self.decoder is not None:
                solution = self.decoder.solve(sets, steps=steps)
                sets, diverged = solution.sets, solution.diverged.tolist()
        finally:
            for module, training in modes.items():
                module.training = training
        if any(diverged):
            warnings.warn(divergence(sum(diverged), len(diverged)), stacklevel=3)  # torch.no_grad is one of the frames
        if not self.schema.pixel_fields:
            return Predictions(self.schema.decode_batch(sets, threshold), diverged)
        canvas = inputs.shape[-1], inputs.shape[-2]
        originals = [canvas] * len(sets) if sizes is None else sizes
        schemas = [self.schema.in_pixels(pixel_on(canvas, size)) for size in originals]
        found = (schema.decode(elements, threshold) for schema, elements in zip(schemas, sets, strict=True))
        return Predictions(found, diverged)


def divergence(count: int, total: int) -> str:
    """The warning about diverged inner optimisations.

    >>> divergence(1, 8)
    'the inner optimisation diverged for 1 of 8 inputs, whose objects are not to be trusted: lower its lr, or clip'
    """
    return (
        f"the inner optimisation diverged for {count} of {total} inputs, whose objects are not to be trusted: "
        "lower its lr, or clip"
    )

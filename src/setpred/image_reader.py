"""From an image to a set: every place of a feature map proposes one element, and the likeliest proposals are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .letterbox import Size
from .proposals import Proposer, best_threshold, fit_plane, least_distance, place_grid, proposal_loss, select
from .schema import Schema
from .trunks import ResNetTrunk, make_trunk, see

USUAL = 0.99
"""The quantile of the training images' strangeness that is set to 1."""
FEWEST = 8
"""Of fewer images nothing is said about what is usual."""
RARE = -4.0
"""The first scores: nearly all places are empty."""


class ImageReader(Proposer):
    """Predict the objects of an image: each place of a feature map proposes one, and the best proposals are the set.

    Images may have any size and shape. In training the feature map is computed in bfloat16 where the processor has
    instructions for it.

    Args:
        schema: what an element is.
        width: channels of the finest feature map; the next two maps have two and four times as many.
        patch: pixels per side of a cell of the finest map. Two places are `2 * patch` pixels apart. Use 2 for images of
            64 pixels, and 4 for images of 128 pixels and more.
        canvas: width and height of the training images. `setpred predict` brings images from files to this size.
        resnet: use a ResNet-18 for the feature map. It can begin with public weights (`load_resnet18`); `width` is then
            64, and places are 8 pixels apart.

    Example:
        >>> from setpred.schema import Real
        >>> schema = Schema({"at": Real(2, range=(0, 64))}, size=5)
        >>> reader = ImageReader(schema, width=8, patch=2)
        >>> images = torch.rand(4, 3, 48, 64)
        >>> reader(images).shape
        torch.Size([4, 5, 3])
        >>> targets, mask = schema.encode_batch([[{"at": [10, 20]}]] * 4)
        >>> loss = reader.loss(images, targets, mask)
    """

    apart: Tensor
    usual_mean: Tensor
    usual_factor: Tensor

    def __init__(
        self, schema: Schema, width: int = 32, patch: int = 4, canvas: Size | None = None, resnet: bool = False
    ) -> None:
        super().__init__(schema)
        self.width, self.patch, self.resnet = width, patch, resnet
        self.trunk = make_trunk(width, patch, resnet)
        self.canvas = None if canvas is None else (canvas[0], canvas[1])
        features = self.trunk.channels
        self.hidden = nn.Conv2d(features + 2, 2 * features, kernel_size=1)
        self.out = nn.Conv2d(2 * features, self.numbers + 1, kernel_size=1)  # and the score of the one-to-many match
        self.plane = nn.Linear(2, len(self._position)) if self._position else None
        with torch.no_grad():
            assert self.out.bias is not None
            self.out.bias[-2:] = RARE
            self.out.weight[self._position] *= 0.1
            for weight in self.plane.parameters() if self.plane is not None else ():
                weight.zero_()
        summary = self.trunk.summary
        self.register_buffer("apart", torch.zeros(()))
        self.register_buffer("usual_mean", torch.zeros(summary))
        self.register_buffer("usual_factor", torch.zeros(summary, summary))

    def load_resnet18(self, state: Mapping[str, Tensor]) -> None:
        """Load the weights of a ResNet-18 that was trained on ImageNet, under torchvision's names."""
        if not isinstance(self.trunk, ResNetTrunk):
            raise ValueError("the trunk is not a ResNet-18: build the reader with resnet=True, width=64")
        self.trunk.load_resnet18(state)

    @property
    def _position(self) -> range:
        """The numbers of an element that say where it is."""
        if self.schema.position_field is None:
            return range(0)
        where = self.schema.slices[self.schema.position_field]
        return range(where.start, where.stop)

    def forward(self, images: Tensor, given: Tensor | None = None) -> Tensor:
        """Images `[batch, 3, height, width]` with values in [0, 1] → sets `[batch, size, dim]`, likeliest first."""
        return select(self.schema, self.propose(images), self.apart)

    def propose(self, images: Tensor, given: Tensor | None = None) -> Tensor:
        """The proposal of each place before activation, with the score as its last number: `[batch, places, dim]`."""
        return self._read(images)[0]

    def _read(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Proposals, crowd scores `[batch, places]` for training alone, and a summary of the image."""
        features, summary = see(self.trunk, images)
        return *self.from_map(features), summary

    def from_map(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The proposals of the trunk's map, and the scores of the one-to-many match, `[batch, places]`."""
        grid = place_grid(*features.shape[2:]).to(self.hidden.weight).flatten(1).mT  # [places, 2]
        places = features.permute(0, 2, 3, 1).flatten(1, 2)  # [batch, places, c]
        # A 1×1 convolution is a product with each place: as such it takes less time, forwards and backwards. The first
        # is in the precision of the map, the second in full, because its numbers are places.
        own, of_grid = self.hidden.weight.flatten(1).split([features.shape[1], 2], dim=1)
        here = F.linear(grid, of_grid, self.hidden.bias)
        hidden = F.relu(F.linear(places, own.to(places)) + here.to(places), inplace=True)
        raw = F.linear(hidden.to(here), self.out.weight.flatten(1), self.out.bias)
        if self.plane is not None:
            where = self.plane(grid)  # [places, k]
            raw = raw + F.pad(where, (self._position.start, raw.shape[-1] - self._position.stop))
        return raw[..., :-1], raw[..., -1]

    def loss(self, images: Tensor, target: Tensor, mask: Tensor | None = None, given: Tensor | None = None) -> Tensor:
        raw, crowd, _ = self._read(images)
        return proposal_loss(self.schema, raw, target, self.present(target, mask), crowd)

    @torch.no_grad()
    def fit_places(self, images: Tensor, sets: Tensor, mask: Tensor) -> None:
        """Before training, find which position in the data's space each place of an image stands for.

        If positions are in pixels, this is known. Otherwise it is estimated from the data; see `fit_plane`.
        """
        if self.plane is not None and mask.any():
            positions = sets[..., self._position.start : self._position.stop]
            height, width = (-(-side // (2 * self.patch)) for side in images.shape[2:])
            if self.schema.position_field in self.schema.pixel_fields:
                pixels = 4 * self.patch / max(images.shape[2:])  # a place, where the longer side has length 2
                weight, bias = torch.zeros_like(self.plane.weight), positions[mask].mean(0)
                weight[0, 1] = weight[1, 0] = pixels * max(height, width) / 2
                bias[:2] = torch.tensor([width, height]).to(bias) * pixels / 2 - 1
            else:
                weight, bias = fit_plane(images, positions, mask, height, width)
            self.plane.weight.copy_(weight)
            self.plane.bias.copy_(bias)

    @torch.no_grad()
    def calibrate(self, batches: Iterable[tuple[Tensor, ...]]) -> None:
        """Fit three things that have no gradient, after training, from batches of images, sets and masks.

        These are the smallest distance between two objects, by which repeated proposals are told from neighbours; the
        score at which an element counts as an object, which becomes a presence of ½; and how images usually look, for
        `strangeness`.
        """
        was_training = self.training
        self.eval()
        batches = list(batches)
        if self._position:
            positions = torch.cat([sets[..., self._position.start : self._position.stop] for _, sets, _ in batches])
            self.apart.fill_(least_distance(positions, torch.cat([mask for _, _, mask in batches])))
        scores, summaries = [], []
        for images, _, _ in batches:
            raw, _, summary = self._read(images)
            summaries.append(summary)
            if self.schema.presence:
                scores.append(select(self.schema, raw, self.apart)[..., -1].logit())
        if scores:
            assert self.out.bias is not None
            counts = torch.cat([mask.sum(1) for _, _, mask in batches])
            self.out.bias[-2] -= best_threshold(torch.cat(scores), counts)
        self._fit_usual(torch.cat(summaries).double())
        self.train(was_training)

    def _fit_usual(self, seen: Tensor) -> None:
        """Mean and covariance of the summaries of one half of the images, and how far the other half is from them."""
        if len(seen) < FEWEST:
            return
        fitted, rest = seen[::2], seen[1::2]
        covariance = torch.cov(fitted.T) + (1e-3 * fitted.var(0).mean() + 1e-9) * torch.eye(seen.shape[1]).to(seen)
        factor = torch.linalg.inv(torch.linalg.cholesky(covariance)).T  # of the inverse
        usual = ((rest - fitted.mean(0)) @ factor).norm(dim=1).quantile(USUAL)
        self.usual_mean.copy_(fitted.mean(0))
        self.usual_factor.copy_(factor / usual.clamp(min=1e-6))  # images that are all the same are at no distance

    @torch.no_grad()
    def strangeness(self, images: Tensor) -> Tensor:
        """How much images differ from the training images, `[batch]`. One training image in a hundred is above 1."""
        return ((self._read(images)[2] - self.usual_mean) @ self.usual_factor).norm(dim=1)

"""From an image to a first set: every place of a feature map proposes one element, and the likeliest are kept."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .image_encoder import check_images
from .letterbox import Size
from .pretrained import Pretrained
from .proposals import best_threshold, fit_plane, least_distance, place_grid, proposal_loss, select
from .schema import Schema

USUAL = 0.99
"""The quantile of the training images' strangeness that is set to 1."""
FEWEST = 8
"""Of fewer images nothing is said about what is usual."""
RARE = -4.0
"""The first scores: nearly all places are empty."""


class Reader(Pretrained):
    """Base of models that propose elements of an image, more than are there, each with a score.

    A subclass says in `propose` what it makes of images; the trunk, its precision, and the loss are the same for all.

    Args:
        schema: what an element is.
        width: channels of the trunk's finest map; the next two have two and four times as many.
        patch: pixels a side of a column of the finest map.
    """

    def __init__(self, schema: Schema, width: int = 32, patch: int = 4) -> None:
        super().__init__()
        if width < 1 or patch < 1:
            raise ValueError(f"width is {width}, patch {patch}: both start at 1")
        self.schema, self.width, self.patch = schema, width, patch
        self.trunk = Trunk(width, patch)
        self.numbers = schema.dim + (not schema.presence)
        """Of a proposal: those of an element, and a score."""

    def forward(self, images: Tensor) -> Tensor:
        """Images `[batch, 3, height, width]` with values in [0, 1] → sets `[batch, size, dim]`, likeliest first."""
        return select(self.schema, self.propose(images))

    def propose(self, images: Tensor) -> Tensor:
        """Proposals before activation, last the score: `[batch, proposals, dim]`."""
        raise NotImplementedError

    def loss(self, images: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
        """The loss of all proposals, a scalar; target `[batch, size, dim]`, mask `[batch, size]` of what exists."""
        return proposal_loss(self.schema, self.propose(images), target, self.present(target, mask))

    def present(self, target: Tensor, mask: Tensor | None) -> Tensor:
        """Which elements of a target exist: the mask, or what their presence says."""
        if mask is not None:
            return mask
        return target[..., -1] > 0 if self.schema.presence else torch.ones_like(target[..., 0], dtype=torch.bool)

    def see(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The trunk's map `[batch, 2 * width, rows, columns]`, and a summary of the image `[batch, 5 * width]`."""
        check_images(images)
        with self._precision(images):
            features, summary = self.trunk(images)
        return features.to(images.dtype), summary.to(images.dtype)

    def _precision(self, images: Tensor) -> AbstractContextManager[None]:
        fast = self.training and images.dtype == torch.float32 and has_bfloat16(images.device)
        return torch.autocast(images.device.type, torch.bfloat16) if fast else nullcontext()


class ImageReader(Reader):
    """Read the objects of an image: at each place of a feature map an element and a score, the best of them a set.

    Images may have any size and shape. In training the feature map is computed in bfloat16 where the processor has
    instructions for it.

    Args:
        schema: what an element is.
        width: channels of the finest map; the next two have two and four times as many.
        patch: pixels a side of a column of the finest map. Places are two of them apart: 2 suits images of 64 pixels,
            4 such of 128 and more.
        canvas: width and height of the images it was trained on, for those who read files for it.

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

    def __init__(self, schema: Schema, width: int = 32, patch: int = 4, canvas: Size | None = None) -> None:
        super().__init__(schema, width, patch)
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
        summary = 5 * width
        self.register_buffer("apart", torch.zeros(()))
        self.register_buffer("usual_mean", torch.zeros(summary))
        self.register_buffer("usual_factor", torch.zeros(summary, summary))

    @property
    def _position(self) -> range:
        """The numbers of an element that say where it is."""
        if self.schema.position_field is None:
            return range(0)
        where = self.schema.slices[self.schema.position_field]
        return range(where.start, where.stop)

    def forward(self, images: Tensor) -> Tensor:
        """Images `[batch, 3, height, width]` with values in [0, 1] → sets `[batch, size, dim]`, likeliest first."""
        return select(self.schema, self.propose(images), self.apart)

    def propose(self, images: Tensor) -> Tensor:
        """What each place proposes before activation, last the score: `[batch, places, dim]`."""
        return self._read(images)[0]

    def _read(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Proposals, crowd scores `[batch, places]` for training alone, and a summary of the image."""
        features, summary = self.see(images)
        grid = place_grid(*features.shape[2:]).to(features)
        here = grid.expand(features.shape[0], -1, -1, -1)
        raw = self.out(F.relu(self.hidden(torch.cat([features, here], dim=1)))).flatten(2).mT
        if self.plane is not None:
            where = self.plane(grid.flatten(1).mT)  # [places, k]
            raw = raw + F.pad(where, (self._position.start, raw.shape[-1] - self._position.stop))
        return raw[..., :-1], raw[..., -1], summary

    def loss(self, images: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
        raw, crowd, _ = self._read(images)
        return proposal_loss(self.schema, raw, target, self.present(target, mask), crowd)

    @torch.no_grad()
    def fit_places(self, images: Tensor, sets: Tensor, mask: Tensor) -> None:
        """Learn where in the data's space each place of an image lies, before training.

        For a position in pixels that is known, otherwise it is found roughly; see `fit_plane`.
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
    def calibrate(self, batches: Iterable[tuple[Tensor, Tensor, Tensor]]) -> None:
        """Learn after training, from batches of images, sets and masks, what no gradient teaches.

        How near two objects come, so that proposals that repeat one another are told from neighbours; the score from
        which on an element counts as an object, which becomes a presence of ½; and what the images usually look like.
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
        self.usual_factor.copy_(factor / usual)

    @torch.no_grad()
    def strangeness(self, images: Tensor) -> Tensor:
        """How unlike those of its training images look, `[batch]`: of those, one in a hundred is above 1."""
        return ((self._read(images)[2] - self.usual_mean) @ self.usual_factor).norm(dim=1)


class Trunk(nn.Module):
    """Residual blocks on three scales; the coarsest map is added back to the middle one.

    Returns the middle map, and a summary of the image: the means of the finest and the coarsest map.

    The mean of the coarsest map goes to all its places, so that each can know what holds for the whole image, such as
    where the camera is.
    """

    def __init__(self, width: int, patch: int) -> None:
        super().__init__()
        self.patch, self.channels = patch, 2 * width
        self.stem = Step(3 * patch * patch + 2, width)
        self.fine = Block(width)
        self.middle = nn.Sequential(Step(width, 2 * width, stride=2), Block(2 * width), Block(2 * width))
        self.coarse = nn.Sequential(Step(2 * width, 4 * width, stride=2), *(Block(4 * width) for _ in range(3)))
        self.whole = nn.Sequential(nn.Linear(4 * width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 4 * width))
        self.up = nn.Conv2d(4 * width, 2 * width, kernel_size=1)
        self.merged = nn.Sequential(Block(2 * width), Block(2 * width))
        for weight in self.whole[2].parameters():
            nn.init.zeros_(weight)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        height, width = images.shape[2:]
        images = F.pad(images, (0, -width % self.patch, 0, -height % self.patch))
        patches = F.pixel_unshuffle(images, self.patch)
        grid = place_grid(*patches.shape[2:]).to(patches).expand(patches.shape[0], -1, -1, -1)
        patches = torch.cat([patches, grid], dim=1).contiguous(memory_format=torch.channels_last)
        fine = self.fine(self.stem(patches))
        middle = self.middle(fine)
        coarse = self.coarse(middle)
        mean = coarse.mean((2, 3))
        coarse = coarse + self.whole(mean)[:, :, None, None]
        up = F.interpolate(self.up(coarse), size=middle.shape[2:], mode="nearest")
        return self.merged(F.relu(middle + up)), torch.cat([fine.mean((2, 3)), mean], dim=1)


class Step(nn.Sequential):
    """A 3×3 convolution, normalised."""

    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        convolution = nn.Conv2d(channels, out, kernel_size=3, stride=stride, padding=1, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(out), nn.ReLU(inplace=True))


class Block(nn.Module):
    """Two 3×3 convolutions added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = Step(channels, channels)
        self.second = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, features: Tensor) -> Tensor:
        return F.relu(self.norm(self.second(self.first(features))).add_(features))


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies in bfloat16 faster than in float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()

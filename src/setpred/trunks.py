"""Networks from an image to a map of features, one column for each place: a small one, and a ResNet-18."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .image_encoder import IMAGENET_MEAN, IMAGENET_STD, ResNet18, check_images
from .proposals import place_grid


class Trunk(nn.Module):
    """Residual blocks on three scales; the coarsest map is added back to the middle one.

    Returns the middle map, and a summary of the image: the means of the finest and the coarsest map.

    The mean of the coarsest map goes to all its places, so that each can know what holds for the whole image, such as
    where the camera is.
    """

    def __init__(self, width: int, patch: int) -> None:
        super().__init__()
        self.patch, self.channels, self.summary = patch, 2 * width, 5 * width
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
        patches = channels_last_patches(images, self.patch)
        convolution, norm, relu = self.stem
        assert isinstance(convolution, nn.Conv2d)
        grid = place_grid(*patches.shape[2:]).to(patches)
        fine = self.fine(relu(norm(beside_grid(convolution, patches, grid))))
        middle = self.middle(fine)
        coarse = self.coarse(middle)
        mean = mean_of_places(coarse)
        coarse = coarse + self.whole(mean)[:, :, None, None]
        up = F.interpolate(self.up(coarse), size=middle.shape[2:], mode="nearest")
        return self.merged(F.relu(middle + up)), torch.cat([mean_of_places(fine), mean], dim=1)


class ResNetTrunk(nn.Module):
    """A ResNet-18 whose coarser maps are added back to the one with a place every 8 pixels.

    Returns that map, and a summary of the image: the means of the finest and the coarsest map.
    """

    patch = 4
    mean: Tensor
    std: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3, 1, 1))
        self.register_buffer("std", torch.ones(3, 1, 1))
        self.channels, self.summary = 2 * width, 9 * width
        self.resnet = ResNet18(width)
        self.laterals = nn.ModuleList(nn.Conv2d(n * width, 2 * width, kernel_size=1) for n in (2, 4, 8))
        self.merged = nn.Sequential(nn.BatchNorm2d(2 * width), nn.ReLU(inplace=True), Block(2 * width))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        images = ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        first, *maps = self.resnet.maps(images)
        features: Tensor | None = None
        for lateral, map_ in zip(reversed(self.laterals), reversed(maps), strict=True):
            own = lateral(map_)
            features = own if features is None else own + F.interpolate(features, size=own.shape[2:], mode="nearest")
        return self.merged(features), torch.cat([mean_of_places(first), mean_of_places(maps[-1])], dim=1)

    def load_resnet18(self, state: Mapping[str, Tensor]) -> None:
        """Take over public weights; images are from then on normalised as they were in that training."""
        self.resnet.load_public(state)
        self.mean.copy_(torch.tensor(IMAGENET_MEAN).view(3, 1, 1))
        self.std.copy_(torch.tensor(IMAGENET_STD).view(3, 1, 1))


def make_trunk(width: int, patch: int, resnet: bool) -> Trunk | ResNetTrunk:
    """The small one, or a ResNet-18, which can begin with public weights."""
    if width < 1 or patch < 1:
        raise ValueError(f"width is {width}, patch {patch}: both start at 1")
    if resnet and patch != ResNetTrunk.patch:
        raise ValueError(f"patch is {patch}, places of a ResNet-18 are 8 pixels apart: leave it at 4")
    return ResNetTrunk(width) if resnet else Trunk(width, patch)


def see(trunk: Trunk | ResNetTrunk, images: Tensor) -> tuple[Tensor, Tensor]:
    """The trunk's map `[batch, 2 * width, rows, columns]`, and a summary of the image `[batch, n]`.

    In training the map is in bfloat16 where the processor has instructions for it.
    """
    check_images(images)
    if trunk.training and images.dtype == torch.float32 and has_bfloat16(images.device):
        with torch.autocast(images.device.type, torch.bfloat16):
            features, summary = trunk(images.bfloat16())
        return features, summary.float()
    return trunk(images)


def beside_grid(convolution: nn.Conv2d, features: Tensor, grid: Tensor) -> Tensor:
    """The convolution of features `[batch, c, rows, columns]` with a grid `[2, rows, columns]` as two more channels.

    The grid is the same for the whole batch, so its part is computed once.
    """
    own, of_grid = convolution.weight.split([features.shape[1], len(grid)], dim=1)
    stride, padding = convolution.stride, convolution.padding
    assert not isinstance(padding, str)
    here = F.conv2d(grid.unsqueeze(0), of_grid, convolution.bias, stride, padding)
    # Added with the channels last: the gradient of `here` is then summed over the batch in a tenth of the time.
    there = F.conv2d(features, own, None, stride, padding)
    return (there.permute(0, 2, 3, 1) + here.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def mean_of_places(features: Tensor) -> Tensor:
    """The mean of each channel: [batch, channels, rows, columns] -> [batch, channels].

    With the channels last, a quarter of the time that `features.mean((2, 3))` takes forwards and backwards.
    """
    return features.permute(0, 2, 3, 1).flatten(1, 2).mean(1)


def channels_last_patches(images: Tensor, side: int) -> Tensor:
    """`F.pixel_unshuffle(images, side)` with the channels last, in one copy instead of two."""
    rows, columns = images.shape[2] // side, images.shape[3] // side
    patches = images.unflatten(3, (columns, side)).unflatten(2, (rows, side))  # [batch, 3, rows, side, columns, side]
    return patches.permute(0, 2, 4, 1, 3, 5).flatten(3).permute(0, 3, 1, 2)


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
        return F.relu(self.norm(self.second(self.first(features))).add_(features), inplace=True)


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies in bfloat16 faster than in float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()

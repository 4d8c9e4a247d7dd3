"""The encoder of images: a ResNet-18 without its pooling and head gives the vector that a set is decoded from."""

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .letterbox import Size
from .pretrained import PRECISIONS, Pretrained

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
STRIDE = 64
"""Pixels between the places of the last feature map."""


class ImageEncoder(Pretrained):
    """ResNet-18, batch normalisation and a 2×2 convolution with stride 2, flattened.

    Each place of the last feature map covers 64×64 pixels and sees their surroundings. The latent numbers are divided
    among the `(size / 64)²` places. For `latent=512`, an image of 64 pixels has 1 place, one of 128 pixels has 4 places
    with 128 numbers each, and one of 256 pixels has 16 places with 32 numbers each. Images of other sizes are padded
    with zeros to the next multiple of 64, at the right and at the bottom.

    Args:
        latent: numbers in the vector.
        size: pixels per side, or width and height.
        width: channels of the first layers; each later stage doubles them. A ResNet-18 has 64.

    Example:
        >>> encoder = ImageEncoder(latent=512, size=64)
        >>> encoder(torch.rand(2, 3, 64, 64)).shape
        torch.Size([2, 512])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, latent: int = 512, size: int | Size = 128, width: int = 64) -> None:
        super().__init__()
        sides = (size, size) if isinstance(size, int) else tuple(size)
        if len(sides) != 2 or min(sides) < 1:
            raise ValueError(f"size is {size}: give the pixels of a side, or width and height")
        places = math.prod(-(-side // STRIDE) for side in sides)
        if latent < places:
            raise ValueError(
                f"latent is {latent}, images of {sides[0]}×{sides[1]} pixels have {places} places: raise it"
            )
        if width < 1:
            raise ValueError(f"width is {width}: give at least one channel")
        self.latent, self.size, self.width = latent, size if isinstance(size, int) else sides, width
        self.shape = sides[1], sides[0]  # of an image: height, width
        self.register_buffer("mean", torch.zeros(3, 1, 1))
        self.register_buffer("std", torch.ones(3, 1, 1))
        self.resnet = ResNet18(width)
        self.norm = nn.BatchNorm2d(8 * width)
        self.project = nn.Conv2d(8 * width, -(-latent // places), kernel_size=2, stride=2)

    def forward(self, images: Tensor) -> Tensor:
        """Images `[batch, 3, height, width]` with values in [0, 1] → `[batch, latent]`."""
        check_images(images, self.shape)
        images = (images - self.mean) / self.std
        height, width = self.shape
        if height % STRIDE or width % STRIDE:
            images = F.pad(images, (0, -width % STRIDE, 0, -height % STRIDE))
        # Faster when a pixel's channels lie together.
        features = self.resnet(images.contiguous(memory_format=torch.channels_last))
        return self.project(self.norm(features)).flatten(1)[:, : self.latent]

    def load_resnet18(self, state: Mapping[str, Tensor]) -> None:
        """Load the weights of a ResNet-18 that was trained on ImageNet, under torchvision's names.

        The classifier (`fc.*`) is ignored. From then on the encoder normalises images as they were in that training.
        Still pass them in [0, 1].
        """
        self.resnet.load_public(state)
        self.mean.copy_(torch.tensor(IMAGENET_MEAN).view(3, 1, 1))
        self.std.copy_(torch.tensor(IMAGENET_STD).view(3, 1, 1))


class ResNet18(nn.Module):
    """The convolutions of a ResNet-18: `[batch, 3, height, width]` → `[batch, 8 * channels, height / 32, width / 32]`.

    With 64 channels its parameters have the names and shapes of torchvision's.
    """

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        c = channels
        self.conv1 = nn.Conv2d(3, c, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = nn.Sequential(Block(c, c), Block(c, c))
        self.layer2 = nn.Sequential(Block(c, 2 * c, stride=2), Block(2 * c, 2 * c))
        self.layer3 = nn.Sequential(Block(2 * c, 4 * c, stride=2), Block(4 * c, 4 * c))
        self.layer4 = nn.Sequential(Block(4 * c, 8 * c, stride=2), Block(8 * c, 8 * c))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        return self.maps(images)[-1]

    def maps(self, images: Tensor) -> list[Tensor]:
        """The maps of the four layers, whose places are 4, 8, 16 and 32 pixels apart."""
        maps = [self.layer1(self.maxpool(self.relu(self.bn1(self.conv1(images)))))]
        for layer in (self.layer2, self.layer3, self.layer4):
            maps.append(layer(maps[-1]))
        return maps

    def load_public(self, state: Mapping[str, Tensor]) -> None:
        """Take over weights with torchvision's names; the classifier (`fc.*`) is left out."""
        state = {name: value for name, value in state.items() if not name.startswith("fc.")}
        own = self.state_dict()
        # Files written long ago do not count batches.
        missing = [name for name in own if name not in state and not name.endswith("num_batches_tracked")]
        unknown = [name for name in state if name not in own]
        wrong = [name for name in own if name in state and state[name].shape != own[name].shape]
        for names, trouble in ((missing, "lack"), (unknown, "hold an unknown"), (wrong, "have another shape of")):
            _refuse_weights(names, trouble)
        _refuse_weights([n for n in own if n in state and not _alike(state[n], own[n])], "have another type of")
        # As they will be: a large number in double precision may be infinite in single precision.
        infinite = [n for n in own if n in state and not state[n].to(own[n].dtype).isfinite().all()]
        _refuse_weights(infinite, "hold NaN or infinity in")
        self.load_state_dict({**own, **state})


def _refuse_weights(names: Sequence[str], trouble: str) -> None:
    if names:
        raise ValueError(f"the weights {trouble} {names[0]!r} ({len(names)} such): give the state dict of a ResNet-18")


def _alike(given: Tensor, own: Tensor) -> bool:
    """Whether a tensor of a file can be a weight: of real numbers in memory, or of the model's type, as counts are."""
    if given.layout is not torch.strided or given.is_meta or given.is_quantized:
        return False
    return given.dtype in PRECISIONS or given.dtype == own.dtype


class Block(nn.Module):
    """Two 3×3 convolutions added to their input, which is brought to their shape where it differs."""

    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample: nn.Module | None = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, out, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, features: Tensor) -> Tensor:
        shortcut = features if self.downsample is None else self.downsample(features)
        features = self.relu(self.bn1(self.conv1(features)))
        return self.relu(self.bn2(self.conv2(features)).add_(shortcut))


def check_images(images: Tensor, shape: tuple[int, int] | None = None) -> None:
    """Raise unless `images` is `[batch, 3, *shape]`, has floating point numbers, and seems to hold values in [0, 1].

    >>> check_images(torch.zeros(2, 64, 64, 3))
    Traceback (most recent call last):
    ValueError: images are [2, 64, 64, 3]: pass [batch, 3, height, width], channels before pixels (permute(0, 3, 1, 2))
    """
    side = f"{shape[0]}, {shape[1]}" if shape else "height, width"
    if images.ndim != 4 or images.shape[1] != 3 or (shape and images.shape[2:] != shape):
        hint = ""
        if images.ndim == 4 and images.shape[-1] == 3:
            hint = ", channels before pixels (permute(0, 3, 1, 2))"
        elif images.ndim == 3:
            hint = ", also for one image (unsqueeze(0))"
        elif images.ndim == 4 and images.shape[1] == 3:
            hint = ": resize them, or build the encoder for their size"
        raise ValueError(f"images are {list(images.shape)}: pass [batch, 3, {side}]{hint}")
    if not images.is_floating_point():
        raise ValueError(f"images are {images.dtype}: pass floats in [0, 1] (images.float() / 255)")
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or images.numel() == 0:
        return
    # Far beyond what augmentation or normalisation can do: these are bytes, or not numbers.
    low, high = (bound.item() for bound in images.detach().aminmax())
    if not (low >= -10 and high <= 10):
        raise ValueError(f"images hold values from {low:g} to {high:g}: pass [0, 1], bytes divided by 255")

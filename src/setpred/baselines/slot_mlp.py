"""Slot MLP: all elements of a set at once from one flat vector, each output with a place of its own."""

from torch import Tensor, nn

from ..image_encoder import check_images
from .slot_attention import Convolutions, ElementHead, start_as_published


class SlotMLP(nn.Module):
    """Slot Attention's convolutions, flattened, and an MLP that writes all slots side by side.

    Args:
        image_size: pixels a side.
        size: slots, that is elements of a set.
        dim: numbers in an element.
        coordinates: how many of them, the first ones, lie in [-1, 1]; the others lie in [0, 1].
        width: channels of the features and numbers in a slot.
        hidden: of the MLP.

    Example:
        >>> import torch
        >>> SlotMLP(image_size=64)(torch.rand(2, 3, 64, 64)).shape
        torch.Size([2, 10, 19])
    """

    def __init__(
        self,
        image_size: int = 128,
        size: int = 10,
        dim: int = 19,
        coordinates: int = 3,
        width: int = 64,
        hidden: int = 512,
    ) -> None:
        super().__init__()
        if image_size < 4 or image_size % 4:
            raise ValueError(f"image_size is {image_size}: resize the images to a multiple of 4 pixels")
        if min(size, width, hidden) < 1:
            raise ValueError(f"got size={size}, width={width}, hidden={hidden}: each must be at least 1")
        self.image_size, self.size, self.dim, self.coordinates = image_size, size, dim, coordinates
        self.width, self.hidden = width, hidden
        self.convolutions = Convolutions(width)
        self.slots = nn.Sequential(
            nn.Flatten(),
            nn.Linear(width * (image_size // 4) ** 2, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, size * width),
            nn.Unflatten(1, (size, width)),
        )
        self.head = ElementHead(width, dim, coordinates)
        start_as_published(self)

    def forward(self, images: Tensor) -> Tensor:
        """Images `[batch, 3, image_size, image_size]` with values in [0, 1] → `[batch, size, dim]`."""
        check_images(images, (self.image_size, self.image_size))
        return self.head(self.slots(self.convolutions(images)))

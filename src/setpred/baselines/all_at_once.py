"""All elements of a set at once, from one vector: the plainest model, and what others have to beat."""

import torch
from torch import Tensor, nn

from ..image_encoder import check_images
from ..schema import Schema
from .rival_ends import Calibrated, ProposalHead
from .slot_attention import Convolutions, ElementHead, start_as_published


class AllAtOnce(Calibrated):
    """An MLP writes all elements side by side, each with an output of its own.

    A set has many orders and the outputs one, so somewhere a small change of the input must make elements jump from
    one output to another: the responsibility problem (Zhang, Hare and Prügel-Bennett, *FSPool*, 2020). Slot MLP
    (Locatello et al., 2020) is this on CLEVR, published with the budget of Slot Attention.

    Args:
        schema: what an element is.
        encoder: from inputs to vectors `[batch, latent]`, the same as before a `SetDecoder`.
        latent: length of the vector.
        features: numbers in an output before it becomes an element.

    Example:
        >>> from setpred import Real, VectorEncoder
        >>> model = AllAtOnce(Schema({"at": Real(2)}, size=3), VectorEncoder(5, 16, 8), latent=8)
        >>> model(torch.rand(2, 5)).shape
        torch.Size([2, 3, 3])
    """

    def __init__(self, schema: Schema, encoder: nn.Module, latent: int, features: int = 128) -> None:
        super().__init__(schema)
        self.encoder, self.latent, self.features = encoder, latent, features
        self.spread = nn.Sequential(
            nn.ReLU(),
            nn.Linear(latent, schema.size * features),
            nn.ReLU(),
            nn.Unflatten(1, (schema.size, features)),
        )
        self.head = ProposalHead(features, self.numbers)
        self.place = nn.Parameter(0.1 * torch.randn(schema.size, features))
        """The head is shared: this tells it which output it writes."""

    def propose(self, inputs: Tensor, given: Tensor | None = None) -> Tensor:
        encoded = self.encoder(inputs) if given is None else self.encoder(inputs, given)
        return self.head(self.spread(encoded) + self.place)


class SlotMLP(nn.Module):
    """The same on CLEVR as published: Slot Attention's convolutions, flattened, and an MLP that writes all slots.

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

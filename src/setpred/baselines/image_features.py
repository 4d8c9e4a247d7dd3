"""What the slot models share: the small convolutional network before the slots, and the head after them."""

import torch
from torch import Tensor, nn


class Convolutions(nn.Module):
    """Four 5×5 convolutions with ReLU, strides 1, 2, 2, 1: `[batch, 3, h, w]` → `[batch, width, h / 4, w / 4]`."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels, stride in ((3, 1), (width, 2), (width, 2), (width, 1)):
            layers += [nn.Conv2d(channels, width, kernel_size=5, stride=stride, padding=2), nn.ReLU(inplace=True)]
        self.net = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        # Published with images in [-1, 1]; in [0, 1] the grey they share hides what differs, and training is slower.
        return self.net((2 * images - 1).contiguous(memory_format=torch.channels_last))


class ElementHead(nn.Module):
    """From a slot to an element: a hidden layer, then sigmoids.

    The first `coordinates` numbers are stretched from [0, 1] to [-1, 1], where positions are; the others are
    one-hot numbers and the presence.
    """

    def __init__(self, width: int, dim: int, coordinates: int) -> None:
        super().__init__()
        if not 0 <= coordinates <= dim:
            raise ValueError(f"coordinates is {coordinates}: an element has {dim} numbers, use 0 to {dim}")
        self.coordinates = coordinates
        self.net = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, dim), nn.Sigmoid())

    def forward(self, slots: Tensor) -> Tensor:
        """`[..., width]` → `[..., dim]`."""
        numbers = self.net(slots)
        return torch.cat([2 * numbers[..., : self.coordinates] - 1, numbers[..., self.coordinates :]], dim=-1)


def start_as_published(model: nn.Module) -> None:
    """Glorot's uniform weights and zero biases everywhere, orthogonal matrices for the state of a GRU.

    With torch's own start the image fades through the convolutions and the position grid drowns what is left.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.GRUCell):
            for gate in range(3):
                rows = slice(gate * module.hidden_size, (gate + 1) * module.hidden_size)
                nn.init.xavier_uniform_(module.weight_ih[rows])
                nn.init.orthogonal_(module.weight_hh[rows])
            nn.init.zeros_(module.bias_ih)
            nn.init.zeros_(module.bias_hh)

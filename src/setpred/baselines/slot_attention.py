"""Slot Attention for set prediction: slots compete for the pixels of an image, then each becomes an element."""

import torch
from torch import Tensor, nn

from ..image_encoder import check_images
from ..matching import hungarian_loss
from ..tensors import fixed_noise
from .image_features import Convolutions, ElementHead, start_as_published


class SlotAttention(nn.Module):
    """Image to set by Slot Attention (Locatello et al., 2020), with the sizes published for CLEVR.

    Set-equivariant in its initial slots: equal slots stay equal, so they start from noise.

    Args:
        size: slots, that is elements of a set.
        dim: numbers in an element.
        coordinates: how many of them, the first ones, lie in [-1, 1]; the others lie in [0, 1].
        width: channels of the features and numbers in a slot.
        hidden: of the MLP that refines a slot.
        iterations: rounds of attention.

    Example:
        >>> model = SlotAttention()
        >>> images = torch.rand(2, 3, 64, 64)
        >>> model(images).shape
        torch.Size([2, 10, 19])
        >>> model(images, every_iteration=True).shape
        torch.Size([3, 2, 10, 19])
    """

    def __init__(
        self,
        size: int = 10,
        dim: int = 19,
        coordinates: int = 3,
        width: int = 64,
        hidden: int = 128,
        iterations: int = 3,
    ) -> None:
        super().__init__()
        if min(size, width, hidden, iterations) < 1:
            raise ValueError(
                f"got size={size}, width={width}, hidden={hidden}, iterations={iterations}: each must be at least 1"
            )
        self.size, self.dim, self.coordinates = size, dim, coordinates
        self.width, self.hidden, self.iterations = width, hidden, iterations
        self.convolutions = Convolutions(width)
        self.place = nn.Linear(4, width)
        self.refine = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.mean = nn.Parameter(torch.empty(1, width))
        self.log_std = nn.Parameter(torch.empty(1, width))
        nn.init.xavier_uniform_(self.mean)
        nn.init.xavier_uniform_(self.log_std)
        self.attention = SlotRounds(width, hidden, iterations)
        self.head = ElementHead(width, dim, coordinates)
        start_as_published(self)

    def forward(self, images: Tensor, noise: Tensor | None = None, every_iteration: bool = False) -> Tensor:
        """The predicted sets, `[batch, size, dim]`, or `[iterations, batch, size, dim]` for every iteration's.

        Args:
            images: `[batch, 3, height, width]` with values in [0, 1].
            noise: `[batch, size, width]` or `[size, width]`, from which the slots start. If not given it is drawn
                from N(0, 1), in `eval()` always the same.
            every_iteration: predict from the slots after each iteration, which the losses * and † are taken at.
        """
        check_images(images)
        features = self.features(images)
        slots = self.mean + self.log_std.exp() * self._noise(features, noise)
        rounds = self.attention(features, slots)
        return self.head(rounds if every_iteration else rounds[-1])

    def features(self, images: Tensor) -> Tensor:
        """One vector for each place of the feature map: `[batch, 3, h, w]` → `[batch, h·w / 16, width]`."""
        maps = self.convolutions(images)
        grid = place_grid(*maps.shape[2:]).to(maps)
        return self.refine(maps.flatten(2).mT + self.place(grid))

    def _noise(self, features: Tensor, noise: Tensor | None) -> Tensor:
        shape = (len(features), self.size, self.width)
        if noise is not None:
            if noise.shape not in (shape, shape[1:]):
                raise ValueError(f"noise is {list(noise.shape)}: pass {list(shape)} or {list(shape[1:])}")
            return noise.to(features).expand(shape)
        if self.training:
            return torch.randn(shape, dtype=features.dtype, device=features.device)
        return fixed_noise(shape[1:], 0, features).expand(shape)


class SlotRounds(nn.Module):
    """Rounds of attention: each place is divided among the slots, and each slot takes the mean of what it got."""

    def __init__(self, width: int, hidden: int, iterations: int) -> None:
        super().__init__()
        self.iterations = iterations
        self.norm_features, self.norm_slots, self.norm_update = (nn.LayerNorm(width) for _ in range(3))
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(width, width)
        self.update = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, features: Tensor, slots: Tensor) -> Tensor:
        """Features `[batch, places, width]`, slots `[batch, size, width]` → `[iterations, batch, size, width]`."""
        features = self.norm_features(features)
        keys, values = self.key(features) * features.shape[-1] ** -0.5, self.value(features)
        rounds = []
        for _ in range(self.iterations):
            scores = self.query(self.norm_slots(slots)) @ keys.mT  # [batch, size, places]
            weights = scores.softmax(dim=1) + 1e-8  # a slot that got no place takes the mean of all
            taken = weights / weights.sum(dim=2, keepdim=True) @ values
            slots = self.gru(taken.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
            slots = slots + self.update(self.norm_update(slots))
            rounds.append(slots)
        return torch.stack(rounds)


def place_grid(height: int, width: int) -> Tensor:
    """How far each place is from the four edges, in [0, 1], row by row: `[height * width, 4]`.

    >>> place_grid(1, 3)
    tensor([[0.0000, 0.0000, 1.0000, 1.0000],
            [0.0000, 0.5000, 1.0000, 0.5000],
            [0.0000, 1.0000, 1.0000, 0.0000]])
    """
    rows, columns = torch.linspace(0, 1, height), torch.linspace(0, 1, width)
    grid = torch.cartesian_prod(rows, columns)
    return torch.cat([grid, 1 - grid], dim=1)


def slot_loss(
    prediction: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    coordinates: int = 3,
    coordinate_range: float = 1.0,
) -> Tensor:
    """Hungarian loss with Huber cost, the coordinates measured in a range of the given length; `[batch]`.

    | variant | prediction | `coordinate_range` |
    |---|---|---|
    | plain | of the last iteration | 1, as if coordinates were in [0, 1] |
    | * | `every_iteration=True` | 2, as if they were in [-1, 1] |
    | † | `every_iteration=True` | 6, as if they were in [-3, 3] |

    A longer range weighs coordinates more against attributes: better at strict distances, worse at attributes.

    Args:
        prediction: `[batch, size, dim]`, or `[iterations, batch, size, dim]`, whose losses are averaged.
        target: `[batch, m, dim]`, coordinates in [-1, 1].
        mask: `[batch, m]` bool, true where a target element exists; None when absent elements are part of the target.
        coordinates: how many numbers of an element, the first ones, are coordinates.
        coordinate_range: the length of their range inside the loss.

    >>> target = torch.zeros(1, 2, 19)
    >>> prediction = target.clone()
    >>> prediction[..., :3] = 1
    >>> [round(19 * slot_loss(prediction, target, coordinate_range=r).item(), 3) for r in (1, 2, 6)]
    [0.375, 1.5, 7.5]
    """
    scale = target.new_ones(target.shape[-1])
    scale[:coordinates] = coordinate_range / 2
    rounds = prediction if prediction.ndim == 4 else prediction[None]
    losses = [hungarian_loss(sets * scale, target * scale, "huber", mask) for sets in rounds]
    return torch.stack(losses).mean(0)

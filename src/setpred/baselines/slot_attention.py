"""Slot Attention for set prediction: slots compete for the pixels of an image, then each becomes an element."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..equivariance import Report, check
from ..image_encoder import check_images
from ..inits import evaluation_noise
from ..matching import hungarian_loss

EPSILON = 1e-3
"""The epsilon of the published normalisation layers: the default of Keras, a hundred times that of torch."""


class SlotAttention(nn.Module):
    """Slot Attention from images to sets (Locatello et al., 2020), with the sizes published for CLEVR.

    The model is set-equivariant in its initial slots. Equal slots would stay equal, so they start from noise.

    Args:
        size: slots, that is elements per set.
        dim: numbers per element.
        coordinates: the first so many numbers lie in [-1, 1], the others in [0, 1].
        width: channels of the features, and numbers per slot.
        hidden: width of the MLP that refines a slot.
        iterations: rounds of attention.
        implicit: compute all rounds but the last without a graph; the gradient is then that of one round at the fixed
            point (Chang et al., 2022).

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
        implicit: bool = False,
    ) -> None:
        super().__init__()
        if min(size, width, hidden, iterations) < 1:
            raise ValueError(
                f"got size={size}, width={width}, hidden={hidden}, iterations={iterations}: each must be at least 1"
            )
        self.size, self.dim, self.coordinates = size, dim, coordinates
        self.width, self.hidden, self.iterations, self.implicit = width, hidden, iterations, implicit
        self.convolutions = Convolutions(width)
        self.place = nn.Linear(4, width)
        self.refine = nn.Sequential(
            nn.LayerNorm(width, EPSILON), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)
        )
        self.mean = nn.Parameter(torch.empty(1, width))
        self.log_std = nn.Parameter(torch.empty(1, width))
        nn.init.xavier_uniform_(self.mean)
        nn.init.xavier_uniform_(self.log_std)
        self.attention = SlotRounds(width, hidden, iterations, implicit)
        self.head = ElementHead(width, dim, coordinates)
        start_as_published(self)

    def forward(self, images: Tensor, noise: Tensor | None = None, every_iteration: bool = False) -> Tensor:
        """The predicted sets, `[batch, size, dim]`, or `[iterations, batch, size, dim]` with `every_iteration`.

        Args:
            images: `[batch, 3, height, width]` with values in [0, 1].
            noise: `[batch, size, width]` or `[size, width]`, from which the initial slots are made. By default it is
                drawn from N(0, 1); in `eval()` it is always the same.
            every_iteration: predict from the slots after each iteration, as the losses * and † of `slot_loss` need it.
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

    @torch.no_grad()
    def check_equivariance(self, images: Tensor, given: Tensor | None = None) -> Report:
        """Check the equivariance of slots as a function of their initial values, for one image."""
        features = self.features(images)  # once: the image stays the same

        def attend(slots: Tensor) -> Tensor:
            return self.head(self.attention(features.expand(len(slots), -1, -1), slots)[-1])

        return check(attend, size=self.size, dim=self.width)

    def _noise(self, features: Tensor, noise: Tensor | None) -> Tensor:
        shape = (len(features), self.size, self.width)
        if noise is not None:
            if noise.shape not in (shape, shape[1:]):
                raise ValueError(f"noise is {list(noise.shape)}: pass {list(shape)} or {list(shape[1:])}")
            return noise.to(features).expand(shape)
        if self.training:
            return torch.randn(shape, dtype=features.dtype, device=features.device)
        return evaluation_noise(len(features), shape[1:], features)


class SlotRounds(nn.Module):
    """Rounds of attention: each place is divided among the slots, and each slot takes the weighted mean of its places.

    With `implicit`, gradients pass through the last round only, and reach the initial slots as if the other rounds were
    the identity.
    """

    def __init__(self, width: int, hidden: int, iterations: int, implicit: bool = False) -> None:
        super().__init__()
        self.iterations, self.implicit = iterations, implicit
        self.norm_features, self.norm_slots, self.norm_update = (nn.LayerNorm(width, EPSILON) for _ in range(3))
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(width, width)
        self.update = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, features: Tensor, slots: Tensor, mask: Tensor | None = None) -> Tensor:
        """Features `[batch, places, width]`, slots `[batch, size, width]` → `[iterations, batch, size, width]`.

        `mask` says which places exist, `[batch, places]`.
        """
        features = self.norm_features(features)
        keys, values = self.key(features) * features.shape[-1] ** -0.5, self.value(features)
        start, rounds = slots, []
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.implicit):
            for _ in range(self.iterations - 1):
                rounds.append(slots := self._round(keys, values, slots, mask))
        if self.implicit and rounds:
            slots = slots + (start - start.detach())
        return torch.stack([*rounds, self._round(keys, values, slots, mask)])

    def _round(self, keys: Tensor, values: Tensor, slots: Tensor, mask: Tensor | None) -> Tensor:
        scores = self.query(self.norm_slots(slots)) @ keys.mT  # [batch, size, places]
        weights = scores.softmax(dim=1) + 1e-8  # a slot that got no place takes the mean of all
        weights = weights if mask is None else weights * mask.unsqueeze(1)
        taken = weights / weights.sum(dim=2, keepdim=True) @ values
        slots = self.gru(taken.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
        return slots + self.update(self.norm_update(slots))


def place_grid(height: int, width: int) -> Tensor:
    """The distances of each place from the four edges, in [0, 1], row by row: `[height * width, 4]`.

    >>> place_grid(1, 3)
    tensor([[0.0000, 0.0000, 1.0000, 1.0000],
            [0.0000, 0.5000, 1.0000, 0.5000],
            [0.0000, 1.0000, 1.0000, 0.0000]])
    """
    rows, columns = torch.linspace(0, 1, height), torch.linspace(0, 1, width)
    grid = torch.cartesian_prod(rows, columns)
    return torch.cat([grid, 1 - grid], dim=1)


def slot_loss(prediction: Tensor, target: Tensor, coordinates: int = 3, coordinate_range: float = 1.0) -> Tensor:
    """Hungarian loss with Huber cost and coordinates in a range of the given length; `[batch]`.

    As published, it is the sum over slots of the mean over their numbers.

    | variant | prediction | `coordinate_range` |
    |---|---|---|
    | plain | of the last iteration | 1, as if coordinates were in [0, 1] |
    | * | `every_iteration=True` | 2, as if they were in [-1, 1] |
    | † | `every_iteration=True` | 6, as if they were in [-3, 3] |

    A longer range gives coordinates more weight: better precision at small distances, worse attributes.

    Args:
        prediction: `[batch, size, dim]`, or `[iterations, batch, size, dim]`, whose losses are averaged.
        target: `[batch, size, dim]`, coordinates in [-1, 1] first, presence last.
        coordinates: the first so many numbers of an element are coordinates.
        coordinate_range: the length of their range inside the loss.

    >>> target = torch.zeros(1, 2, 19)
    >>> target[..., -1] = 1
    >>> prediction = target.clone()
    >>> prediction[..., :3] = 1
    >>> [round(19 / 2 * slot_loss(prediction, target, coordinate_range=r).item(), 3) for r in (1, 2, 6)]
    [0.375, 1.5, 7.5]
    """
    scale = target.new_ones(target.shape[-1])
    scale[:coordinates] = coordinate_range / 2
    target = absent_in_corner(target, coordinates) * scale
    rounds = prediction if prediction.ndim == 4 else prediction[None]
    losses = [hungarian_loss(sets * scale, target, "huber") for sets in rounds]
    return target.shape[1] * torch.stack(losses).mean(0)


def absent_in_corner(target: Tensor, coordinates: int = 3) -> Tensor:
    """The target with absent elements where slots put them: at the lowest corner of the range of coordinates.

    Slot Attention pads its targets with zeros when coordinates lie in [0, 1], and 0 there is -1 in [-1, 1].

    >>> absent_in_corner(torch.zeros(1, 1, 5))
    tensor([[[-1., -1., -1.,  0.,  0.]]])
    """
    absent = (target[..., -1:] == 0) & (torch.arange(target.shape[-1], device=target.device) < coordinates)
    return target.masked_fill(absent, -1.0)


class Convolutions(nn.Module):
    """Four 5×5 convolutions with ReLU, strides 1, 2, 2, 1: `[batch, 3, h, w]` → `[batch, width, h / 4, w / 4]`."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels, stride in ((3, 1), (width, 2), (width, 2), (width, 1)):
            layers += [SameConvolution(channels, width, kernel_size=5, stride=stride), nn.ReLU(inplace=True)]
        self.net = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        # Published with images in [-1, 1]; in [0, 1] the grey they share hides what differs, and training is slower.
        return self.net((2 * images - 1).contiguous(memory_format=torch.channels_last))


class SameConvolution(nn.Conv2d):
    """A convolution with TensorFlow's SAME padding: an odd pixel of padding goes below and to the right.

    torch pads both sides alike, which moves every second output of a stride of 2 by a pixel.
    """

    def forward(self, input: Tensor) -> Tensor:
        height, width = (self._padding(axis, input.shape[2 + axis]) for axis in (0, 1))
        return super().forward(F.pad(input, (*width, *height)))

    def _padding(self, axis: int, pixels: int) -> tuple[int, int]:
        stride, kernel = self.stride[axis], self.kernel_size[axis]
        whole = max(0, (-(-pixels // stride) - 1) * stride + kernel - pixels)
        return whole // 2, whole - whole // 2


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
    """Initialise with Glorot's uniform weights and zero biases, and orthogonal matrices for the state of a GRU.

    With torch's defaults, the image fades in the convolutions, and the position grid dominates what is left.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.GRUCell):
            nn.init.xavier_uniform_(module.weight_ih)  # of its three gates together, as Keras has it
            nn.init.orthogonal_(module.weight_hh)
            nn.init.zeros_(module.bias_ih)
            nn.init.zeros_(module.bias_hh)

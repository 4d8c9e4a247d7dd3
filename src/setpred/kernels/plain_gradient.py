"""The gradient of the inner loss without a graph, in plain torch operations: for GPUs and every type of number.

Elements are ranked once per iteration, where autograd sorts on the way forth and back; small sets are ranked without a
sort. The device is never asked for a value. So a GPU is never waited for, the iterations can be captured in a CUDA
graph, and `torch.compile` sees one graph.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from .products import linears
from .sorting import existing, order_of

COMPARED = 64
"""Up to so many elements are ranked by comparing each with each, which takes less time than sorting them."""


class PlainGradient:
    """L and ∇L of a batch for g(Y) = pool(relu(Y W₁ᵀ + b₁) W₂ᵀ + b₂).

    Args:
        net: Linear, ReLU, Linear.
        weights: the pooling of so many elements as weights of their ranks, `[n, channels]` or `[batch, n, channels]`.
        ranked: whether elements are sorted; else an element's rank is its place.
        z: what the encoding should be, `[batch, channels]`.
        mask: which elements exist, `[batch, size]`.
        start: Y0, `[batch, size, dim]`, where pull · ½ mean (Y - Y0)² over the free entries belongs to L.
        pull: how strongly Y is pulled to it.
        given: which entries are not free, `[batch, size, dim]`: the gradient is zero there.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 8))
        >>> gradient = PlainGradient(net, lambda n: torch.ones(n, 8), True, torch.zeros(3, 8))
        >>> loss, grad = gradient(torch.randn(3, 5, 2))
        >>> loss.shape, grad.shape
        (torch.Size([3]), torch.Size([3, 5, 2]))
    """

    def __init__(
        self,
        net: nn.Sequential,
        weights: Callable[[int], Tensor],
        ranked: bool,
        z: Tensor,
        mask: Tensor | None = None,
        start: Tensor | None = None,
        pull: float = 0.0,
        given: Tensor | None = None,
    ):
        first, second = linears(net)
        self.w1, self.b1 = first.weight.detach(), first.bias.detach()
        self.w2, self.b2 = second.weight.detach(), second.bias.detach()
        self.weights, self.ranked, self.z, self.mask = weights, ranked, z.detach(), mask
        self.given, self.start = given, None if start is None else start.detach()
        if start is not None:
            entries = start[0].numel() if given is None else (~given).sum(dim=(1, 2)).clamp(min=1)
            self.pull = pull / torch.as_tensor(entries, dtype=z.dtype, device=z.device)
        self._weight: dict[int, Tensor] = {}

    def weight(self, n: int) -> Tensor:
        """The weight of each rank (or place) of n elements, zero where there is none, `[1 or batch, n, channels]`."""
        if n not in self._weight:
            weight = self.weights(n).detach()
            weight = weight if weight.ndim == 3 else weight.unsqueeze(0)
            if self.mask is not None:
                absent = ~self.mask.unsqueeze(-1)
                weight = existing(weight, self.mask) if self.ranked else weight.masked_fill(absent, 0.0)
            self._weight[n] = weight
        return self._weight[n]

    @torch.no_grad()
    def __call__(self, sets: Tensor) -> tuple[Tensor, Tensor]:
        """Sets `[batch, size, dim]` → L `[batch]` and ∇L `[batch, size, dim]`."""
        batch, n, dim = sets.shape
        channels = self.z.shape[1]
        hidden = torch.addmm(self.b1, sets.reshape(-1, dim), self.w1.T).relu_()
        features = torch.addmm(self.b2, hidden, self.w2.T).view(batch, n, channels)
        weight = self.weight(n)
        if self.mask is not None:  # what does not exist may be infinite, and that times 0 is not 0
            features = features.masked_fill(~self.mask.unsqueeze(-1), 0.0)
        residual = -self.z
        if self.ranked:
            rank = ranks(features, self.mask)
            residual = residual + 0.0 * features.sum(dim=1)  # a NaN has no rank, and must not be lost
            features = features.scatter(1, rank, features)
        # By rank: the sum has the same bits for any order of the elements.
        residual = (features * weight).sum(dim=1) + residual
        loss = 0.5 * residual.square().mean(dim=1)
        back = weight * ((0.5 / channels) * (2.0 * residual)).unsqueeze(1)  # rounded as autograd does
        if self.ranked:
            back = back.gather(1, rank)
        back = torch.mm(back.reshape(-1, channels), self.w2)
        grad = torch.mm(back.masked_fill_(hidden <= 0, 0.0), self.w1).view(batch, n, dim)
        if self.start is not None:
            offset = sets - self.start
            if self.given is not None:
                offset = offset.masked_fill(self.given, 0.0)
            loss = loss + 0.5 * self.pull * offset.square().sum(dim=(1, 2))
            grad = grad + self.pull.view(-1, 1, 1) * offset
        return loss, grad if self.given is None else grad.masked_fill(self.given, 0.0)


def ranks(features: Tensor, mask: Tensor | None) -> Tensor:
    """The rank of each element in each channel, `[batch, n, channels]`: descending, ties by index, masked ones last."""
    n = features.shape[1]
    if n > COMPARED:
        order = order_of(features, mask)
        places = torch.arange(n, device=features.device).view(1, n, 1).expand_as(order)
        return torch.empty_like(order).scatter_(1, order, places)
    rank = torch.zeros_like(features, dtype=torch.uint8)
    for apart in range(1, n):
        behind = features[:, :-apart] < features[:, apart:]  # whether the earlier of two elements ranks below the later
        if mask is not None:
            behind = mask[:, apart:, None] & (behind | ~mask[:, :-apart, None])
        rank[:, :-apart] += behind
        rank[:, apart:] += ~behind
    return rank.long()

"""Inputs brought to mean 0 and spread 1 before they are encoded."""

import torch
from torch import Tensor, nn


class Standardized(nn.Module):
    """An encoder of vectors or sets whose inputs may be in any units: it measures them once and remembers.

    Args:
        encoder: of vectors `[batch, dim]`, or of sets `[batch, size, dim]` and a mask.
        dim: numbers in a vector or an element.

    Example:
        >>> encoder = Standardized(nn.Linear(2, 2, bias=False), dim=2)
        >>> nn.init.eye_(encoder.encoder.weight).shape
        torch.Size([2, 2])
        >>> encoder.measure(torch.tensor([[100.0, 5.0], [300.0, 5.0]]))
        >>> encoder(torch.tensor([[200.0, 5.0], [300.0, 6.0]])).tolist()
        [[0.0, 0.0], [1.0, 1.0]]
    """

    mean: Tensor
    std: Tensor

    def __init__(self, encoder: nn.Module, dim: int) -> None:
        super().__init__()
        self.encoder, self.dim = encoder, dim
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("std", torch.ones(dim))

    def measure(self, rows: Tensor) -> None:
        """Take over the mean and the spread of vectors or elements `[rows, dim]`; what never varies keeps its unit."""
        numbers = rows.double()
        std, mean = torch.std_mean(numbers, dim=0, correction=0)
        self.mean.copy_(mean)
        self.std.copy_(torch.where(std > 1e-6 * mean.abs(), std, 1.0))

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        inputs = (inputs - self.mean) / self.std
        return self.encoder(inputs) if mask is None else self.encoder(inputs, mask)

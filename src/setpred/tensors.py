"""Small things about tensors that several parts need."""

from typing import Any

import torch
from torch import Tensor


def check_tensor(name: str, value: Any) -> None:
    """Raise unless it is one, be it a list or an array."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} is {type(value).__name__}: pass a tensor")


def check_device(name: str, tensor: Tensor, other: str, like: Tensor) -> None:
    """Raise unless both are on one device."""
    if tensor.device != like.device:
        raise ValueError(f"{name} is on {tensor.device}, {other} on {like.device}: move one of them")


def ordinary(tensor: Tensor) -> Tensor:
    """The tensor as autograd can use it: one made in inference mode cannot be part of a graph."""
    return tensor.clone() if tensor.is_inference() else tensor


def widest(numbers: Tensor) -> Tensor:
    """In the highest precision that their device has: float64, but float32 on MPS."""
    return numbers if numbers.device.type == "mps" else numbers.double()


def fixed_noise(shape: tuple[int, ...], seed: int, like: Tensor) -> Tensor:
    """Normal numbers that are the same at each call, whatever device and type they are for."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu").to(like)

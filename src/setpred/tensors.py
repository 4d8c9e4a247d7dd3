"""Kind, device, precision and memory of tensors."""

import ctypes
import sys
from typing import Any

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


def keep_freed_memory() -> None:
    """Let this process keep the memory of freed tensors for the next ones, where the C library can be told so.

    GNU's otherwise returns large blocks to the system, which hands them out again page by page: up to a tenth of the
    time of a training step on images.
    """
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt"):
        trim_threshold, mmap_threshold, most = -1, -3, 2**30
        for option in (trim_threshold, mmap_threshold):
            ctypes.CDLL(None).mallopt(option, most)

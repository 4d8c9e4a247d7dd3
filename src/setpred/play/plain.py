"""Tensors as JSON can hold them."""

from typing import Any

from torch import Tensor


def numbers(values: Tensor, digits: int = 4) -> Any:
    """Nested lists, rounded; None for what is no finite number.

    >>> import torch
    >>> numbers(torch.tensor([[0.123456, torch.nan]]))
    [[0.1235, None]]
    """
    if values.isfinite().all():
        return values.double().round(decimals=digits).tolist()
    return _without_nan(values.double().round(decimals=digits).tolist())


def _without_nan(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_nan(value) for value in values]
    return values if abs(values) < float("inf") else None

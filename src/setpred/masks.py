"""Masks: which elements of sets exist, checked, and for two sets that are compared."""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .notices import warn_renamed
from .tensors import check_device, check_tensor


def check_mask(name: str, mask: Any, shape: Sequence[int]) -> None:
    """Raise unless it is a tensor of bool of that shape."""
    check_tensor(name, mask)
    if mask.dtype != torch.bool or mask.shape != tuple(shape):
        raise ValueError(
            f"{name} is {list(mask.shape)} {mask.dtype}: pass {list(shape)} torch.bool, true where an element exists"
        )


def masks_of_both(
    mask: Tensor | None,
    prediction_mask: Tensor | None,
    target_mask: Tensor | None,
    prediction: Tensor,
    target: Tensor,
) -> tuple[Tensor, Tensor]:
    """Which predictions, of `[batch, n, ...]`, and which targets, of `[batch, m, ...]`, exist; all if nothing is said.

    `mask` says it of both sets, `prediction_mask` and `target_mask` of one.
    """
    if mask is not None and prediction_mask is None and target_mask is None:
        if prediction.shape[1] != target.shape[1]:
            warn_renamed("the mask of targets that are not as many as the predictions", "target_mask", stacklevel=3)
            mask, target_mask = None, mask
        else:
            check_mask("mask", mask, prediction.shape[:2])
            _warn_of_both(mask, prediction)
    full = []
    for name, own, sets in (("prediction_mask", prediction_mask, prediction), ("target_mask", target_mask, target)):
        name, given = ("mask", mask) if own is None else (name, own)
        if given is None:
            given = torch.ones(sets.shape[:2], dtype=torch.bool, device=sets.device)
        check_mask(name, given, sets.shape[:2])
        check_device(name, given, "the sets", sets)
        full.append(given)
    return full[0], full[1]


def _warn_of_both(mask: Tensor, prediction: Tensor) -> None:
    """Warn where it matters that `mask` was once that of the targets alone.

    A decoder that knows the mask predicts zeros where nothing exists, and no one meant to match those.
    """
    if mask.device == prediction.device and bool((prediction.detach()[~mask] != 0).any()):
        warnings.warn(
            "mask is now that of both sets, before it was that of the targets alone: pass target_mask=mask for the "
            "old meaning, or prediction_mask=mask as well to say that both are meant",
            FutureWarning,
            stacklevel=4,
        )

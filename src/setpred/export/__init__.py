"""Trained predictors as files that run without this package."""

from .files import to_onnx, to_torch

__all__ = ["to_onnx", "to_torch"]

"""Trained predictors as files that run without this package."""

from .formats import to_onnx, to_torch

__all__ = ["to_onnx", "to_torch"]

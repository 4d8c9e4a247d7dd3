"""The old place of `setpred.tasks`, for one version."""

from ..notices import moved

__getattr__ = moved("setpred.training.tasks", "setpred.tasks")

"""The old place of `setpred.data.jsonl_folder`, for one version."""

from ...notices import moved

__getattr__ = moved("setpred.data.folder", "setpred.data.jsonl_folder")

"""The old place of `setpred.tasks`, for one version."""

import warnings
from typing import Any

from .. import tasks


def __getattr__(name: str) -> Any:
    found = getattr(tasks, name)
    warnings.warn(f"setpred.training.tasks is now setpred.tasks: import {name} from there", DeprecationWarning, 2)
    return found

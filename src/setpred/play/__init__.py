"""The playground: `setpred play` shows in the browser how sets are found.

The browser computes what it can, the server scenes and runs. Requests carry everything they need: nothing is
remembered between them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .zoo import pretrained

__all__ = ["pretrained"]


def __getattr__(name: str) -> Any:
    """Models load torch, which takes seconds: a port that is taken is reported before that."""
    if name != "pretrained":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .zoo import pretrained

    return pretrained

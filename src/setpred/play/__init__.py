"""The playground: `setpred play` shows in the browser how sets are found.

All computing is done here, by requests that carry everything they need: nothing is remembered between them.
"""

from .pretrained import pretrained

__all__ = ["pretrained"]

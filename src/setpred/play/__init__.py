"""The playground: `setpred play` shows in the browser how sets are found.

All computing is done here, by requests that carry everything they need: nothing is remembered between them.
"""

from .zoo import pretrained

__all__ = ["pretrained"]

"""Set prediction for PyTorch: a vector, an image or a set in, a multiset out.

>>> import torch
>>> import setpred as sp
>>> encoder = sp.SetEncoder(dim=2, hidden=64, latent=64, size=5)
>>> decoder = sp.iDSPN(encoder, solver=sp.Nesterov(steps=10))
>>> sets = decoder(torch.randn(3, 64))
>>> sets.shape
torch.Size([3, 5, 2])
"""

import re
from importlib import import_module
from typing import Any

__version__ = "0.2.0"


def _listed() -> dict[str, str]:
    with open(f"{__path__[0]}/__init__.pyi", encoding="utf-8") as listing:
        imports = re.findall(r"^from (\.[\w.]*) import (\w+)", listing.read(), re.MULTILINE)
    return {name: f".{name}" if module == "." else module for module, name in imports}


PUBLIC = _listed()
"""The module of every public name, as `__init__.pyi` lists them.

A module is loaded when one of its names is first used: the command line answers before torch is there, and a decoder
needs no metrics or data. What stands here can be chosen in settings and built from saved models.
"""


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        from .notices import CLASSES, warn_renamed

        if name in CLASSES:
            warn_renamed(f"setpred.{name}", CLASSES[name])
            return __getattr__(CLASSES[name])
        raise AttributeError(f"module 'setpred' has no attribute {name!r}")
    module = import_module(PUBLIC[name], __name__)
    return module if PUBLIC[name] == f".{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = sorted(PUBLIC)

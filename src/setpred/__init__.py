"""Set prediction for PyTorch: a vector, an image or a set in, a multiset out.

>>> import torch
>>> encoder = SetEncoder(dim=2, hidden=64, latent=64, size=5)
>>> decoder = iDSPN(encoder, size=5, dim=2, solver=Nesterov(steps=10))
>>> sets = decoder(torch.randn(3, 64))
>>> sets.shape
torch.Size([3, 5, 2])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .adjoints import ConjugateGradient, Identity, Unrolled
from .constraints import Ball, Box, Fields, NonNegative, Simplex, Sphere
from .decoder import DSPN, SetDecoder, iDSPN
from .encoders import RelationEncoder, SetEncoder, VectorEncoder
from .inits import LearnedInit, RandomInit, ZeroInit
from .pooling import FSPool, MaxPool, MeanPool, SumPool
from .solution import Solution, Trace
from .solvers import GradientDescent, Nesterov, TorchOptimizer

if TYPE_CHECKING:
    from . import baselines, equivariance
    from .average_precision import SetAveragePrecision
    from .image_encoder import ImageEncoder
    from .matching import Assignment, assign, chamfer_loss, hungarian_loss
    from .metrics import ExactSetAccuracy
    from .predictor import SetPredictor
    from .ragged import collate_sets, pad_sets
    from .schema import Angle, Category, Count, Flag, Real, Schema

__version__ = "0.1.0"

# Loaded when first used: they bring compilers, solvers or metrics that a decoder alone does not need.
_LAZY = {
    "Angle": ".schema",
    "Assignment": ".matching",
    "Category": ".schema",
    "Count": ".schema",
    "ExactSetAccuracy": ".metrics",
    "Flag": ".schema",
    "ImageEncoder": ".image_encoder",
    "Real": ".schema",
    "Schema": ".schema",
    "SetAveragePrecision": ".average_precision",
    "SetPredictor": ".predictor",
    "assign": ".matching",
    "baselines": ".baselines",
    "chamfer_loss": ".matching",
    "collate_sets": ".ragged",
    "equivariance": ".equivariance",
    "hungarian_loss": ".matching",
    "pad_sets": ".ragged",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'setpred' has no attribute {name!r}")
    module = import_module(_LAZY[name], __name__)
    return module if _LAZY[name] == f".{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "DSPN",
    "Angle",
    "Assignment",
    "Ball",
    "Box",
    "Category",
    "ConjugateGradient",
    "Count",
    "ExactSetAccuracy",
    "FSPool",
    "Fields",
    "Flag",
    "GradientDescent",
    "Identity",
    "ImageEncoder",
    "LearnedInit",
    "MaxPool",
    "MeanPool",
    "Nesterov",
    "NonNegative",
    "RandomInit",
    "Real",
    "RelationEncoder",
    "Schema",
    "SetAveragePrecision",
    "SetDecoder",
    "SetEncoder",
    "SetPredictor",
    "Simplex",
    "Solution",
    "Sphere",
    "SumPool",
    "TorchOptimizer",
    "Trace",
    "Unrolled",
    "VectorEncoder",
    "ZeroInit",
    "assign",
    "baselines",
    "chamfer_loss",
    "collate_sets",
    "equivariance",
    "hungarian_loss",
    "iDSPN",
    "pad_sets",
]

"""Set prediction for PyTorch: a vector, an image or a set in, a multiset out.

>>> import torch
>>> import setpred as sp
>>> encoder = sp.SetEncoder(dim=2, hidden=64, latent=64, size=5)
>>> decoder = sp.iDSPN(encoder, size=5, dim=2, solver=sp.Nesterov(steps=10))
>>> sets = decoder(torch.randn(3, 64))
>>> sets.shape
torch.Size([3, 5, 2])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import baselines, equivariance, export
    from .adjoints import ConjugateGradient, Identity, Unrolled
    from .average_precision import SetAveragePrecision
    from .constraints import Ball, Box, Fields, NonNegative, Simplex, Sphere
    from .decoder import DSPN, SetDecoder, iDSPN
    from .encoders import RelationEncoder, SetEncoder, VectorEncoder
    from .image_encoder import ImageEncoder
    from .inits import GuessedInit, LearnedInit, RandomInit, ZeroInit
    from .matching import Assignment, assign, chamfer_loss, hungarian_loss
    from .metrics import ExactSetAccuracy
    from .pooling import FSPool, MaxPool, MeanPool, SumPool
    from .predictor import SetPredictor
    from .ragged import collate_sets, pad_sets
    from .restart import Restart
    from .schema import Angle, Category, Count, Flag, Real, Schema
    from .solution import Solution, Trace
    from .solvers import GradientDescent, Nesterov, TorchOptimizer

__version__ = "0.1.0"

# Loaded when first used: the command line answers before torch is there, and a decoder needs no metrics or data.
_HOMES = {
    ".adjoints": "ConjugateGradient Identity Unrolled",
    ".average_precision": "SetAveragePrecision",
    ".baselines": "baselines",
    ".constraints": "Ball Box Fields NonNegative Simplex Sphere",
    ".decoder": "DSPN SetDecoder iDSPN",
    ".encoders": "RelationEncoder SetEncoder VectorEncoder",
    ".equivariance": "equivariance",
    ".export": "export",
    ".image_encoder": "ImageEncoder",
    ".inits": "GuessedInit LearnedInit RandomInit ZeroInit",
    ".matching": "Assignment assign chamfer_loss hungarian_loss",
    ".metrics": "ExactSetAccuracy",
    ".pooling": "FSPool MaxPool MeanPool SumPool",
    ".predictor": "SetPredictor",
    ".ragged": "collate_sets pad_sets",
    ".restart": "Restart",
    ".schema": "Angle Category Count Flag Real Schema",
    ".solution": "Solution Trace",
    ".solvers": "GradientDescent Nesterov TorchOptimizer",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'setpred' has no attribute {name!r}")
    module = import_module(_HOME[name], __name__)
    return module if _HOME[name] == f".{name}" else getattr(module, name)


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
    "GuessedInit",
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
    "Restart",
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
    "export",
    "hungarian_loss",
    "iDSPN",
    "pad_sets",
]

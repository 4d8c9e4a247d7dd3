"""Set prediction for PyTorch: a vector, an image or a set in, a multiset out.

>>> import torch
>>> encoder = SetEncoder(dim=2, hidden=64, latent=64, size=5)
>>> decoder = iDSPN(encoder, size=5, dim=2, solver=Nesterov(steps=10))
>>> sets = decoder(torch.randn(3, 64))
>>> sets.shape
torch.Size([3, 5, 2])
"""

from .adjoints import ConjugateGradient, Identity, Unrolled
from .constraints import Ball, Box, Fields, NonNegative, Simplex, Sphere
from .decoder import DSPN, SetDecoder, iDSPN
from .encoders import RelationEncoder, SetEncoder
from .inits import LearnedInit, RandomInit, ZeroInit
from .pooling import FSPool, MaxPool, MeanPool, SumPool
from .solution import Solution, Trace
from .solvers import GradientDescent, Nesterov, TorchOptimizer

__version__ = "0.1.0"

__all__ = [
    "DSPN",
    "Ball",
    "Box",
    "ConjugateGradient",
    "FSPool",
    "Fields",
    "GradientDescent",
    "Identity",
    "LearnedInit",
    "MaxPool",
    "MeanPool",
    "Nesterov",
    "NonNegative",
    "RandomInit",
    "RelationEncoder",
    "SetDecoder",
    "SetEncoder",
    "Simplex",
    "Solution",
    "Sphere",
    "SumPool",
    "TorchOptimizer",
    "Trace",
    "Unrolled",
    "ZeroInit",
    "iDSPN",
]

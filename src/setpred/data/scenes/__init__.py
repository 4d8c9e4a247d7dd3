"""CLEVR's world, ray-traced on the CPU: scenes as a dataset, as files, as pictures."""

from .rendered import Scenes, picture, write
from .world import Scene, arrange, sample

__all__ = ["Scene", "Scenes", "arrange", "picture", "sample", "write"]

"""CLEVR's world, ray-traced on the CPU: scenes as a dataset, as files, as pictures."""

from .dataset import Scenes
from .files import write
from .picture import picture
from .world import Scene, arrange, sample

__all__ = ["Scene", "Scenes", "arrange", "picture", "sample", "write"]

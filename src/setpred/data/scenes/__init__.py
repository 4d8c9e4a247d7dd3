"""CLEVR's world, ray-traced on the CPU: scenes as a dataset, as files, as pictures."""

from setpred.data.scenes.dataset import Scenes
from setpred.data.scenes.files import write
from setpred.data.scenes.picture import picture
from setpred.data.scenes.world import Scene, arrange, sample

__all__ = ["Scene", "Scenes", "arrange", "picture", "sample", "write"]

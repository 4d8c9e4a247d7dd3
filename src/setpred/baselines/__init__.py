"""The rivals: from set to set in the numbering experiment, and from images, vectors and sets to sets."""

from .rival_ends import CodeTokens, ImageTokens, SetTokens, VectorTokens
from .rivals import AllAtOnce, CompetingSlots, LearnedQueries, SlotMLP
from .set_to_set import BiLSTM, DeepSets, Transformer
from .slot_attention import SlotAttention, slot_loss

__all__ = [
    "AllAtOnce",
    "BiLSTM",
    "CodeTokens",
    "CompetingSlots",
    "DeepSets",
    "ImageTokens",
    "LearnedQueries",
    "SetTokens",
    "SlotAttention",
    "SlotMLP",
    "Transformer",
    "VectorTokens",
    "slot_loss",
]

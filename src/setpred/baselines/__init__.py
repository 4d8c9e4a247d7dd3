"""The rivals, one per file: from set to set in the numbering experiment, from images, vectors and sets to sets."""

from .all_at_once import AllAtOnce
from .competing_slots import CompetingSlots
from .learned_queries import LearnedQueries
from .set_to_set import BiLSTM, DeepSets, Transformer
from .slot_attention import SlotAttention, slot_loss
from .slot_mlp import SlotMLP
from .tokens import ImageTokens, SetTokens, VectorTokens

__all__ = [
    "AllAtOnce",
    "BiLSTM",
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

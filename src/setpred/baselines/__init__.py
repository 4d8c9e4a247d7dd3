"""The rivals, one per file: from set to set in the numbering experiment, from images, vectors and sets to sets."""

from .all_at_once import AllAtOnce, SlotMLP
from .competing_slots import CompetingSlots
from .learned_queries import LearnedQueries
from .rival_ends import ImageTokens, SetTokens, VectorTokens
from .set_to_set import BiLSTM, DeepSets, Transformer
from .slot_attention import SlotAttention, slot_loss

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

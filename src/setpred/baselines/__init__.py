"""The rivals: from set to set in the numbering experiment, from image to set on CLEVR."""

from .bilstm import BiLSTM
from .deepsets import DeepSets
from .slot_attention import SlotAttention, slot_loss
from .slot_mlp import SlotMLP
from .transformer import Transformer

__all__ = ["BiLSTM", "DeepSets", "SlotAttention", "SlotMLP", "Transformer", "slot_loss"]

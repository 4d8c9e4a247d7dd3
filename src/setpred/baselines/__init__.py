"""The rivals: from set to set in the numbering experiment, from image to set on CLEVR."""

from .bilstm import BiLSTM
from .deepsets import DeepSets
from .readers import QueryReader, SlotReader
from .slot_attention import SlotAttention, slot_loss
from .slot_mlp import SlotMLP
from .transformer import Transformer

__all__ = ["BiLSTM", "DeepSets", "QueryReader", "SlotAttention", "SlotMLP", "SlotReader", "Transformer", "slot_loss"]

"""The rivals: from set to set in the numbering experiment, from image to set on CLEVR."""

from setpred.baselines.bilstm import BiLSTM
from setpred.baselines.deepsets import DeepSets
from setpred.baselines.slot_attention import SlotAttention, slot_loss
from setpred.baselines.slot_mlp import SlotMLP
from setpred.baselines.transformer import Transformer

__all__ = ["BiLSTM", "DeepSets", "SlotAttention", "SlotMLP", "Transformer", "slot_loss"]

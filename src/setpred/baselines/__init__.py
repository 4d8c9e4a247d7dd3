"""The rivals of the numbering experiment: each maps `[batch, n, dim]` to one vector for each element."""

from setpred.baselines.bilstm import BiLSTM
from setpred.baselines.deepsets import DeepSets
from setpred.baselines.transformer import Transformer

__all__ = ["BiLSTM", "DeepSets", "Transformer"]

"""A bidirectional LSTM over the elements in the order in which they are stored."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..encoders import checked_sets


class BiLSTM(nn.Module):
    """Linear, two bidirectional LSTM layers, linear: reads a set as a sequence.

    Args:
        dim: entries of an input element.
        out: entries of an output element.
        hidden: state of each direction; the paper takes 128 for 8 classes.
        width: entries of an element as the LSTM sees it.
        layers: of the LSTM.

    >>> BiLSTM()(torch.zeros(2, 64, 4)).shape
    torch.Size([2, 64, 64])
    """

    def __init__(self, dim: int = 4, out: int = 64, hidden: int = 64, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.dim = dim
        self.source = nn.Linear(dim, width)
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, out)

    def forward(self, sets: Tensor, mask: Tensor | None = None) -> Tensor:
        """`[batch, n, dim]` and the valid elements `[batch, n]`, which come first, to `[batch, n, out]`."""
        sets = checked_sets(sets, self.dim, mask)
        features = self.source(sets)
        if mask is None:
            return self.head(self.lstm(features)[0])
        lengths = mask.sum(dim=1)
        if (mask != (torch.arange(mask.shape[1], device=mask.device) < lengths[:, None])).any():
            raise ValueError("mask has padding before a valid element: a BiLSTM needs all padding at the end")
        if (lengths == 0).any():
            raise ValueError("mask leaves a set without elements: a BiLSTM needs at least one in each")
        packed = pack_padded_sequence(features, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=mask.shape[1])
        return torch.where(mask.unsqueeze(-1), self.head(states), 0)

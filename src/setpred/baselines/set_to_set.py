"""Models that compute one output element for each input element: the rivals of the numbering experiment."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..encoders import checked_sets
from ..inits import evaluation_noise


class DeepSets(nn.Module):
    """Two layers of A x_i + B mean(x) with a ReLU between them.

    Args:
        dim: entries of an input element.
        out: entries of an output element.
        hidden: width between the layers.

    >>> DeepSets()(torch.zeros(2, 64, 4)).shape
    torch.Size([2, 64, 64])
    """

    def __init__(self, dim: int = 4, out: int = 64, hidden: int = 256) -> None:
        super().__init__()
        self.dim = dim
        self.first = EquivariantLinear(dim, hidden)
        self.second = EquivariantLinear(hidden, out)

    def forward(self, sets: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sets `[batch, n, dim]`, mask `[batch, n]` → `[batch, n, out]`; masked elements are 0."""
        sets = checked_sets(sets, self.dim, mask)
        return self.second(self.first(sets, mask).relu(), mask)


class EquivariantLinear(nn.Module):
    """A x_i + B mean(x): the general linear map of a set that does not depend on its order.

    Both maps have a bias, as in the published model, although one would be enough.
    """

    def __init__(self, dim: int, out: int) -> None:
        super().__init__()
        self.each = nn.Linear(dim, out)
        self.mean = nn.Linear(dim, out)

    def forward(self, sets: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return self.each(sets) + self.mean(sets.mean(dim=1, keepdim=True))
        valid = mask.unsqueeze(-1)
        total = torch.where(valid, sets, 0).sum(dim=1, keepdim=True)
        mean = total / valid.sum(dim=1, keepdim=True).clamp(min=1)
        return torch.where(valid, self.each(sets) + self.mean(mean), 0)


PositionalEncoding = Literal["none", "random", "sinusoidal", "both"]


class Transformer(nn.Module):
    """Transformer encoder and decoder over the same elements; the decoder starts from an affine map of each element.

    Without positional encoding the model is set-equivariant. Sinusoidal encoding makes it depend on the order of the
    elements. With random encoding, half of the width is the affine map and the other half is α + e^β · noise, where α
    and β are learned. Only the decoder gets encodings; with "both", the encoder gets sinusoidal ones, too.

    Args:
        dim: entries of an input element.
        out: entries of an output element.
        pe: the positional encoding: "none", "random", "sinusoidal" or "both".
        width: entries of an element inside the model; the paper uses 128 for 8 classes.
        heads: attention heads.
        layers: layers of the encoder, and also of the decoder.

    >>> Transformer(pe="random")(torch.zeros(2, 64, 4)).shape
    torch.Size([2, 64, 64])
    """

    def __init__(
        self,
        dim: int = 4,
        out: int = 64,
        pe: PositionalEncoding = "none",
        width: int = 64,
        heads: int = 8,
        layers: int = 2,
    ) -> None:
        super().__init__()
        if pe not in get_args(PositionalEncoding):
            raise ValueError(f"pe is {pe!r}: choose one of {', '.join(get_args(PositionalEncoding))}")
        if width % heads or width % 2:
            raise ValueError(f"width is {width}: choose an even multiple of heads={heads}")
        self.dim = dim
        self.pe = pe
        self.noise_dim = width // 2
        self.source = nn.Linear(dim, width)
        self.target = nn.Linear(dim, width // 2 if pe == "random" else width)
        if pe == "random":
            self.noise_mean = nn.Parameter(torch.zeros(()))
            self.noise_log_scale = nn.Parameter(torch.zeros(()))
        self.transformer = nn.Transformer(
            width, heads, layers, layers, dim_feedforward=2 * width, dropout=0.0, batch_first=True
        )
        # Nested tensors drop the padding at the end of a batch, and with it elements of the answer.
        self.transformer.encoder.use_nested_tensor = False
        self.head = nn.Linear(width, out)

    def forward(self, sets: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        """One vector for each element.

        Args:
            sets: `[batch, n, dim]`.
            mask: `[batch, n]`, true where an element exists; other elements are not attended to, and their output is 0.
            noise: `[batch, n, noise_dim]`, for `pe="random"`. By default it is drawn from N(0, 1); in `eval()` it is
                always the same.

        Returns:
            `[batch, n, out]`.
        """
        sets = checked_sets(sets, self.dim, mask)
        # Attention over nothing is NaN, so a set without elements attends to its padding.
        padding = None if mask is None else ~mask & mask.any(dim=1, keepdim=True)
        features = self.transformer(
            self._keys(sets),
            self._queries(sets, noise),
            src_key_padding_mask=padding,
            tgt_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        out = self.head(features)
        return out if mask is None else torch.where(mask.unsqueeze(-1), out, 0)

    def _keys(self, sets: Tensor) -> Tensor:
        source = self.source(sets)
        return source + sinusoids(sets.shape[1], source.shape[-1]).to(source) if self.pe == "both" else source

    def _queries(self, sets: Tensor, noise: Tensor | None) -> Tensor:
        target = self.target(sets)
        if noise is not None:
            self._check_noise(sets, noise)
        if self.pe == "none":
            return target
        if self.pe != "random":
            return target + sinusoids(sets.shape[1], target.shape[-1]).to(target)
        if noise is None:
            shape = target.shape[1:]
            noise = torch.randn_like(target) if self.training else evaluation_noise(len(target), shape, target)
        return torch.cat([target, self.noise_mean + self.noise_log_scale.exp() * noise], dim=-1)

    def _check_noise(self, sets: Tensor, noise: Tensor) -> None:
        if self.pe != "random":
            raise ValueError(f'noise was given with pe="{self.pe}": build the Transformer with pe="random"')
        expected = [*sets.shape[:2], self.noise_dim]
        if list(noise.shape) != expected:
            raise ValueError(f"noise has shape {list(noise.shape)}: pass {expected}")


def sinusoids(n: int, width: int) -> Tensor:
    """Sines and cosines of the position at wavelengths from 2π to 10,000 · 2π, `[n, width]`.

    >>> sinusoids(3, 4)[0]
    tensor([0., 1., 0., 1.])
    """
    frequencies = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
    angles = torch.arange(n)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class BiLSTM(nn.Module):
    """A linear layer, bidirectional LSTM layers and a linear layer, which read a set as a sequence.

    Args:
        dim: entries of an input element.
        out: entries of an output element.
        hidden: state of each direction, and entries of an element in the input of the LSTM; the paper uses 128 for 8
            classes.
        layers: layers of the LSTM.

    >>> BiLSTM()(torch.zeros(2, 64, 4)).shape
    torch.Size([2, 64, 64])
    """

    def __init__(self, dim: int = 4, out: int = 64, hidden: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.dim = dim
        self.source = nn.Linear(dim, hidden)
        self.lstm = nn.LSTM(hidden, hidden, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, out)

    def forward(self, sets: Tensor, mask: Tensor | None = None) -> Tensor:
        """Sets `[batch, n, dim]`, mask `[batch, n]` (existing elements first) → `[batch, n, out]`."""
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

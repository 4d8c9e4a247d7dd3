"""What rivals share: modules that turn an input into tokens, and proposals whose presence is calibrated.

A module of tokens maps `inputs, given → tokens [batch, count, features], mask [batch, count] or None`.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..encoders import Standardized, checked_sets
from ..image_reader import RARE
from ..letterbox import Size
from ..proposals import Proposer, best_threshold, place_grid, select
from ..schema import Schema
from ..trunks import make_trunk, see

Tokens = tuple[Tensor, Tensor | None]


class ImageTokens(nn.Module):
    """One token for each place of the image reader's feature map, with its position.

    Args:
        width: channels of the finest feature map.
        patch: pixels per side of a cell of the finest map.
        features: numbers in a token.
        canvas: width and height of the training images. `setpred predict` brings images from files to this size.
        resnet: use a ResNet-18 for the feature map. It can begin with public weights; `width` is then 64.
    """

    def __init__(
        self, width: int = 32, patch: int = 4, features: int = 128, canvas: Size | None = None, resnet: bool = False
    ) -> None:
        super().__init__()
        self.width, self.patch, self.features = width, patch, features
        self.canvas = None if canvas is None else (canvas[0], canvas[1])
        self.resnet = resnet
        self.trunk = make_trunk(width, patch, resnet)
        self.net = nn.Sequential(
            nn.Linear(self.trunk.channels + 2, features),
            nn.ReLU(),
            nn.Linear(features, features),
            nn.LayerNorm(features),
        )

    def forward(self, images: Tensor, given: Tensor | None = None) -> Tokens:
        features = see(self.trunk, images)[0].to(images)
        grid = place_grid(*features.shape[2:]).to(features).expand(features.shape[0], -1, -1, -1)
        return self.net(torch.cat([features, grid], dim=1).flatten(2).mT), None


class VectorTokens(nn.Module):
    """Several tokens, which a small network computes from a vector.

    Args:
        dim: numbers per vector.
        hidden: width of the network.
        features: numbers in a token.
        count: number of tokens.
    """

    takes = "vector"

    def __init__(self, dim: int, hidden: int = 256, features: int = 128, count: int = 8) -> None:
        super().__init__()
        self.dim, self.hidden, self.features, self.count = dim, hidden, features, count
        net = nn.Sequential(
            nn.Linear(dim, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, count * features),
            nn.Unflatten(1, (count, features)),
            nn.LayerNorm(features),
        )
        self.read = Standardized(net, dim)

    def forward(self, vectors: Tensor, given: Tensor | None = None) -> Tokens:
        return self.read(vectors), None


class CodeTokens(nn.Module):
    """Tokens from the vector that an encoder makes of an input, so that all information passes through this vector.

    Args:
        encoder: maps inputs to vectors `[batch, latent]`.
        latent: length of the vector.
        hidden: width of the network that makes tokens of the vector.
        features: numbers in a token.
    """

    def __init__(self, encoder: nn.Module, latent: int, hidden: int = 256, features: int = 128) -> None:
        super().__init__()
        self.encoder, self.latent, self.hidden, self.features = encoder, latent, hidden, features
        self.tokens = VectorTokens(latent, hidden, features)

    def forward(self, inputs: Tensor, given: Tensor | None = None) -> Tokens:
        return self.tokens(self.encoder(inputs) if given is None else self.encoder(inputs, given))


class SetTokens(nn.Module):
    """A token for each element of a set, and one more for empty sets, from a Transformer encoder.

    Args:
        dim: numbers per element.
        size: elements in the largest set.
        features: numbers in a token.
        layers: layers of the Transformer encoder.
    """

    takes = "set"

    def __init__(self, dim: int, size: int, features: int = 128, layers: int = 2) -> None:
        super().__init__()
        self.dim, self.size, self.features, self.layers = dim, size, features, layers
        self.embed = Standardized(nn.Linear(dim, features), dim)
        self.whole = nn.Parameter(torch.randn(1, 1, features))
        self.mix = nn.ModuleList(
            nn.TransformerEncoderLayer(features, 4, 2 * features, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )

    def forward(self, sets: Tensor, given: Tensor | None = None) -> Tokens:
        sets = checked_sets(sets, self.dim, given)
        tokens = torch.cat([self.whole.expand(sets.shape[0], -1, -1), self.embed(sets)], dim=1)
        mask = None if given is None else torch.cat([torch.ones_like(given[:, :1]), given], dim=1)
        for layer in self.mix:
            tokens = layer(tokens, src_key_padding_mask=None if mask is None else ~mask)
        return tokens, mask


class Calibrated(Proposer):
    """A proposer that finds, after training, the score at which an element counts as present.

    The focal loss does not train scores such that half of the elements with score ½ are present.
    """

    least_score: Tensor

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.register_buffer("least_score", torch.zeros(()))

    def forward(self, inputs: Tensor, given: Tensor | None = None) -> Tensor:
        raw = self.propose(inputs, given)
        return select(self.schema, torch.cat([raw[..., :-1], raw[..., -1:] - self.least_score], dim=-1))

    @torch.no_grad()
    def calibrate(self, batches: Iterable[tuple[Tensor, ...]]) -> None:
        if not self.schema.presence:
            return
        was_training = self.training
        self.eval()
        scores, counts = [], []
        for inputs, _, mask, *given in batches:
            scores.append(self.propose(inputs, *given)[..., -1])
            counts.append(mask.sum(1))
        self.least_score.fill_(best_threshold(torch.cat(scores), torch.cat(counts)))
        self.train(was_training)


class ProposalHead(nn.Sequential):
    """Two layers that compute the numbers of a proposal. Its score starts low."""

    def __init__(self, features: int, numbers: int) -> None:
        last = nn.Linear(features, numbers)
        with torch.no_grad():
            last.bias[-1] = RARE / 4
        super().__init__(nn.Linear(features, features), nn.ReLU(), last)

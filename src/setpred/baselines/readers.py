"""Other ways from the reader's feature map to proposals: learned queries as in DETR, and Slot Attention.

They have the trunk, the proposals and the one-to-one loss of `ImageReader`, so that only the way to a set differs.
"""

import torch
from torch import Tensor, nn

from ..image_reader import RARE, Reader
from ..proposals import place_grid, proposal_loss
from ..schema import Schema
from ..tensors import fixed_noise
from .slot_attention import SlotRounds


class QueryReader(Reader):
    """Learned queries look at the map in the layers of a Transformer decoder; each becomes a proposal (DETR).

    The loss is taken after every layer, as DETR's auxiliary losses are.

    Args:
        schema: what an element is.
        width: of the trunk.
        patch: of the trunk.
        features: numbers in a query.
        layers: of the decoder.

    Example:
        >>> from setpred.schema import Real
        >>> reader = QueryReader(Schema({"at": Real(2)}, size=3), width=4, patch=2)
        >>> reader(torch.rand(2, 3, 16, 16)).shape
        torch.Size([2, 3, 3])
    """

    def __init__(self, schema: Schema, width: int = 32, patch: int = 4, features: int = 128, layers: int = 3) -> None:
        super().__init__(schema, width, patch)
        self.features, self.layers = features, layers
        self.keys = MapTokens(self.trunk.channels, features)
        self.queries = nn.Parameter(torch.randn(schema.size, features))
        options = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(features, 4, 2 * features, **options)  # type: ignore[arg-type]
            for _ in range(layers)
        )
        self.head = ProposalHead(features, self.numbers)

    def propose(self, images: Tensor) -> Tensor:
        return self._layers(images)[-1]

    def loss(self, images: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
        losses = (proposal_loss(self.schema, raw, target, self.present(target, mask)) for raw in self._layers(images))
        return torch.stack(list(losses)).sum()

    def _layers(self, images: Tensor) -> list[Tensor]:
        """Proposals after each layer."""
        keys = self.keys(self.see(images)[0])
        queries, proposals = self.queries.expand(len(keys), -1, -1), []
        for layer in self.decoder:
            queries = layer(queries, keys)
            proposals.append(self.head(queries))
        return proposals


class SlotReader(Reader):
    """Slots compete for the places of the map, round by round; each becomes a proposal (Slot Attention).

    All rounds but the last are made without a graph: the gradient is that of one step at the fixed point, as implicit
    Slot Attention has it.

    Example:
        >>> from setpred.schema import Real
        >>> reader = SlotReader(Schema({"at": Real(2)}, size=3), width=4, patch=2)
        >>> reader(torch.rand(2, 3, 16, 16)).shape
        torch.Size([2, 3, 3])
    """

    def __init__(
        self, schema: Schema, width: int = 32, patch: int = 4, features: int = 128, iterations: int = 5
    ) -> None:
        super().__init__(schema, width, patch)
        self.features, self.iterations = features, iterations
        self.places = MapTokens(self.trunk.channels, features)
        self.mean, self.log_std = (nn.Parameter(0.1 * torch.randn(1, features)) for _ in range(2))
        self.rounds = SlotRounds(features, 2 * features, 1)
        self.head = ProposalHead(features, self.numbers)

    def propose(self, images: Tensor) -> Tensor:
        places = self.places(self.see(images)[0])
        shape = (self.schema.size, self.features)
        noise = torch.randn(len(places), *shape).to(places) if self.training else fixed_noise(shape, 0, places)
        start = self.mean + self.log_std.exp() * noise.expand(len(places), *shape)
        slots = start
        with torch.no_grad():
            for _ in range(self.iterations - 1):
                slots = self.rounds(places, slots)[-1]
        slots = slots + (start - start.detach())  # the start learns straight through the rounds
        return self.head(self.rounds(places, slots)[-1])


class MapTokens(nn.Module):
    """The places of a map as vectors that know where they are: `[batch, c, rows, columns]` → `[batch, places, out]`."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(channels + 2, out), nn.ReLU(), nn.Linear(out, out), nn.LayerNorm(out))

    def forward(self, features: Tensor) -> Tensor:
        grid = place_grid(*features.shape[2:]).to(features).expand(len(features), -1, -1, -1)
        return self.net(torch.cat([features, grid], dim=1).flatten(2).mT)


class ProposalHead(nn.Sequential):
    """Two layers to the numbers of a proposal, whose score starts low."""

    def __init__(self, features: int, numbers: int) -> None:
        last = nn.Linear(features, numbers)
        with torch.no_grad():
            last.bias[-1] = RARE / 4
        super().__init__(nn.Linear(features, features), nn.ReLU(), last)

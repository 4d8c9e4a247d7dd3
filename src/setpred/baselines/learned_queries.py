"""Learned queries and a Transformer decoder: the way of DETR and of the Transformer Set Prediction Network."""

import torch
from torch import Tensor, nn

from ..proposals import proposal_loss
from ..schema import Schema
from .rival_ends import Calibrated, ProposalHead


class LearnedQueries(Calibrated):
    """Learned queries look at the input and at one another in the layers of a Transformer decoder; each is an element.

    The loss is taken after every layer, as DETR's auxiliary losses are. DETR (Carion et al., 2020) is published with
    300 to 500 epochs of COCO, AdamW at 1e-4 with weight decay 1e-4 and gradients clipped at 0.1; TSPN (Kosiorek, Kim
    and Rezende, 2020) decodes a vector in the same way.

    Args:
        schema: what an element is.
        tokens: what the queries look at, such as `ImageTokens`.
        layers: of the decoder.

    Example:
        >>> from setpred import Real
        >>> from setpred.baselines import VectorTokens
        >>> model = LearnedQueries(Schema({"at": Real(2)}, size=3), VectorTokens(5, features=8))
        >>> model(torch.rand(2, 5)).shape
        torch.Size([2, 3, 3])
    """

    def __init__(self, schema: Schema, tokens: nn.Module, layers: int = 3) -> None:
        super().__init__(schema)
        self.tokens, self.layers = tokens, layers
        features: int = tokens.features  # type: ignore[assignment]
        self.queries = nn.Parameter(torch.randn(schema.size, features))
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(features, 4, 2 * features, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = ProposalHead(features, self.numbers)

    def propose(self, inputs: Tensor, given: Tensor | None = None) -> Tensor:
        return self._after_each_layer(inputs, given)[-1]

    def loss(self, inputs: Tensor, target: Tensor, mask: Tensor | None = None, given: Tensor | None = None) -> Tensor:
        present = self.present(target, mask)
        proposals = self._after_each_layer(inputs, given)
        return torch.stack([proposal_loss(self.schema, raw, target, present) for raw in proposals]).sum()

    def _after_each_layer(self, inputs: Tensor, given: Tensor | None) -> list[Tensor]:
        tokens, mask = self.tokens(inputs, given)
        queries, proposals = self.queries.expand(tokens.shape[0], -1, -1), []
        for layer in self.decoder:
            queries = layer(queries, tokens, memory_key_padding_mask=None if mask is None else ~mask)
            proposals.append(self.head(queries))
        return proposals

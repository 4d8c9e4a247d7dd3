"""All elements of a set at once, from one vector: the plainest way, and what others have to beat."""

import torch
from torch import Tensor, nn

from ..schema import Schema
from .calibrated import Calibrated, ProposalHead


class AllAtOnce(Calibrated):
    """An MLP writes all elements side by side, each with an output of its own.

    A set has many orders and the outputs one, so somewhere a small change of the input must make elements jump from
    one output to another: the responsibility problem (Zhang, Hare and Prügel-Bennett, *FSPool*, 2020). Slot MLP
    (Locatello et al., 2020) is this on CLEVR, published with the budget of Slot Attention.

    Args:
        schema: what an element is.
        encoder: from inputs to vectors `[batch, latent]`, the same as before a `SetDecoder`.
        latent: length of the vector.
        features: numbers in an output before it becomes an element.

    Example:
        >>> from setpred import Real, VectorEncoder
        >>> model = AllAtOnce(Schema({"at": Real(2)}, size=3), VectorEncoder(5, 16, 8), latent=8)
        >>> model(torch.rand(2, 5)).shape
        torch.Size([2, 3, 3])
    """

    def __init__(self, schema: Schema, encoder: nn.Module, latent: int, features: int = 128) -> None:
        super().__init__(schema)
        self.encoder, self.latent, self.features = encoder, latent, features
        self.spread = nn.Sequential(
            nn.ReLU(),
            nn.Linear(latent, schema.size * features),
            nn.ReLU(),
            nn.Unflatten(1, (schema.size, features)),
        )
        self.head = ProposalHead(features, self.numbers)
        self.place = nn.Parameter(0.1 * torch.randn(schema.size, features))
        """The head is shared: this tells it which output it writes."""

    def propose(self, inputs: Tensor, given: Tensor | None = None) -> Tensor:
        encoded = self.encoder(inputs) if given is None else self.encoder(inputs, given)
        return self.head(self.spread(encoded) + self.place)

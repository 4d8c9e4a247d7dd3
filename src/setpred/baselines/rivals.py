"""Rivals for inputs of any kind, trained as in their papers: all elements at once, competing slots, learned queries."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..equivariance import Report, check
from ..image_encoder import check_images
from ..inits import evaluation_noise, fixed_noise
from ..proposals import Proposer, proposal_loss
from ..schema import Schema
from .rival_ends import Calibrated, ProposalHead
from .slot_attention import Convolutions, ElementHead, SlotRounds, start_as_published

RIVALS: dict[str, dict[str, Any]] = {
    "mlp": {},
    "queries": {
        "optim.weight_decay": 1e-4,
        "optim.schedule": "one-cycle",
        "optim.clip": 0.1,
    },
    "slots": {"optim.schedule": "one-cycle"},
    "slots-unrolled": {"optim.schedule": "one-cycle", "optim.clip": 1.0},
}
"""What each changes in the settings of a training."""


class AllAtOnce(Calibrated):
    """An MLP writes all elements side by side, each with an output of its own.

    A set has no order, but the outputs have one. So for some inputs a small change must make elements jump from one
    output to another: the responsibility problem (Zhang, Hare and Prügel-Bennett, *FSPool*, 2020). Slot MLP (Locatello
    et al., 2020) is this model on CLEVR, published with the training budget of Slot Attention.

    Args:
        schema: what an element is.
        encoder: maps inputs to vectors `[batch, latent]`, as the encoder before a `SetDecoder` does.
        latent: length of the vector.
        features: numbers per output before it becomes an element.

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


class SlotMLP(nn.Module):
    """`AllAtOnce` on CLEVR as published: Slot Attention's convolutions, flattened, and an MLP that writes all slots.

    Args:
        image_size: pixels per side.
        size: slots, that is elements per set.
        dim: numbers in an element.
        coordinates: the first so many numbers lie in [-1, 1], the others in [0, 1].
        width: channels of the features, and numbers per slot.
        hidden: width of the MLP.

    Example:
        >>> import torch
        >>> SlotMLP(image_size=64)(torch.rand(2, 3, 64, 64)).shape
        torch.Size([2, 10, 19])
    """

    def __init__(
        self,
        image_size: int = 128,
        size: int = 10,
        dim: int = 19,
        coordinates: int = 3,
        width: int = 64,
        hidden: int = 512,
    ) -> None:
        super().__init__()
        if image_size < 4 or image_size % 4:
            raise ValueError(f"image_size is {image_size}: resize the images to a multiple of 4 pixels")
        if min(size, width, hidden) < 1:
            raise ValueError(f"got size={size}, width={width}, hidden={hidden}: each must be at least 1")
        self.image_size, self.size, self.dim, self.coordinates = image_size, size, dim, coordinates
        self.width, self.hidden = width, hidden
        self.convolutions = Convolutions(width)
        self.slots = nn.Sequential(
            nn.Flatten(),
            nn.Linear(width * (image_size // 4) ** 2, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, size * width),
            nn.Unflatten(1, (size, width)),
        )
        self.head = ElementHead(width, dim, coordinates)
        start_as_published(self)

    def forward(self, images: Tensor) -> Tensor:
        """Images `[batch, 3, image_size, image_size]` with values in [0, 1] → `[batch, size, dim]`."""
        check_images(images, (self.image_size, self.image_size))
        return self.head(self.slots(self.convolutions(images)))


class CompetingSlots(Calibrated):
    """Slots compete for the tokens of the input in rounds of attention, then each slot becomes an element.

    Slot Attention (Locatello et al., 2020) is published for CLEVR with 150,000 steps of 512 images, Adam at 4e-4 with a
    warm-up of 1,000 steps and a decay, and three rounds. With `implicit`, the gradient is that of one round at the
    fixed point (Chang, Griffiths and Levine, 2022). This makes training more stable and allows more rounds.

    Args:
        schema: what an element is.
        tokens: what the slots compete for, such as `ImageTokens`.
        iterations: rounds of attention.
        implicit: compute all rounds but the last without a graph.

    Example:
        >>> from setpred import Real
        >>> from setpred.baselines import SetTokens
        >>> model = CompetingSlots(Schema({"at": Real(2)}, size=3), SetTokens(2, size=4, features=8))
        >>> model(torch.rand(2, 4, 2), torch.tensor([[True] * 4, [True] * 2 + [False] * 2])).shape
        torch.Size([2, 3, 3])
    """

    usual_noise: Tensor

    def __init__(self, schema: Schema, tokens: nn.Module, iterations: int = 5, implicit: bool = True) -> None:
        super().__init__(schema)
        self.tokens, self.iterations, self.implicit = tokens, iterations, implicit
        features: int = tokens.features  # type: ignore[assignment]
        self.register_buffer("usual_noise", fixed_noise((schema.size, features), 0, torch.empty(0)))
        self.mean, self.log_std = (nn.Parameter(0.1 * torch.randn(1, features)) for _ in range(2))
        self.rounds = SlotRounds(features, 2 * features, iterations, implicit)
        self.head = ProposalHead(features, self.numbers)

    def propose(self, inputs: Tensor, given: Tensor | None = None) -> Tensor:
        tokens, mask = self.tokens(inputs, given)
        batch, shape = tokens.shape[0], tuple(self.usual_noise.shape)
        if torch.compiler.is_exporting():  # a graph cannot hold what draws random numbers
            noise = self.usual_noise.expand(batch, *shape)
        elif self.training:
            noise = torch.randn(batch, *shape).to(tokens)
        else:
            noise = evaluation_noise(batch, shape, tokens)
        return self.attend(tokens, self.mean + self.log_std.exp() * noise, mask)

    def attend(self, tokens: Tensor, slots: Tensor, mask: Tensor | None = None) -> Tensor:
        """Proposals from initial slots `[batch, size, features]`."""
        return self.head(self.rounds(tokens, slots, mask)[-1])

    @torch.no_grad()
    def check_equivariance(self, inputs: Tensor, given: Tensor | None = None) -> Report:
        """Check the equivariance of slots as a function of their initial values. The input is one example."""
        tokens, mask = self.tokens(inputs, given)

        def attend(slots: Tensor) -> Tensor:
            many = None if mask is None else mask.expand(len(slots), -1)
            return self.attend(tokens.expand(len(slots), -1, -1), slots, many)

        return check(attend, size=self.schema.size, dim=tokens.shape[-1])


class LearnedQueries(Calibrated):
    """Learned queries attend to the input and to one another in a Transformer decoder; each becomes an element.

    Every layer has a loss, like the auxiliary losses of DETR. DETR (Carion et al., 2020) is published with
    300 to 500 epochs of COCO, AdamW at 1e-4 with weight decay 1e-4 and gradients clipped at 0.1; TSPN (Kosiorek, Kim
    and Rezende, 2020) decodes a vector in the same way.

    Args:
        schema: what an element is.
        tokens: what the queries attend to, such as `ImageTokens`.
        layers: layers of the decoder.

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


def make_rival(
    name: str, schema: Schema, latent: int, encoder: Callable[[], nn.Module], tokens: Callable[[], nn.Module]
) -> Proposer:
    """One of `RIVALS`.

    Args:
        name: which.
        schema: what an element is.
        latent: length of the vectors that `encoder` makes.
        encoder: makes the module from inputs to vectors, which the MLP needs.
        tokens: makes the module from inputs to tokens, which queries and slots look at.
    """
    if name == "mlp":
        return AllAtOnce(schema, encoder(), latent)
    if name == "queries":
        return LearnedQueries(schema, tokens())
    if name == "slots-unrolled":
        return CompetingSlots(schema, tokens(), iterations=3, implicit=False)
    return CompetingSlots(schema, tokens())

"""Slots that compete for what the input is made of: Slot Attention, for any input."""

import torch
from torch import Tensor, nn

from ..inits import evaluation_noise, fixed_noise
from ..schema import Schema
from .rival_ends import Calibrated, ProposalHead
from .slot_attention import SlotRounds


class CompetingSlots(Calibrated):
    """Slots compete for the tokens of the input, round by round; each becomes an element.

    Slot Attention (Locatello et al., 2020) is published for CLEVR with 150,000 steps of 512 images, Adam at 4e-4 with a
    warm-up of 1,000 steps and a decay, and three rounds. With `implicit` the gradient is that of one round at the fixed
    point (Chang, Griffiths and Levine, 2022), which is steadier and allows more rounds.

    Args:
        schema: what an element is.
        tokens: what the slots compete for, such as `ImageTokens`.
        iterations: rounds of attention.
        implicit: make all rounds but the last without a graph.

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

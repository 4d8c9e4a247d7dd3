"""A second start for the few examples whose inner loss says that the first went wrong."""

import torch
from torch import Tensor, nn

from .tensors import fixed_noise


class Restart(nn.Module):
    """Solve suspicious examples again from another start, and keep the set of lower inner loss.

    Training learns which inner losses are usual. In `eval()` an example is suspicious if its inner loss, as the last
    iteration saw it, is above `threshold`, or if it diverged; so what is predicted depends on nothing but the input. A
    start given by the caller is never replaced.

    Args:
        share: of the training examples that lie above the threshold, so about what restarts cost.
        std: of the noise that is added to the start.

    Attributes:
        threshold: infinite until training, or `fit`, has seen losses.

    Example:
        >>> import setpred as sp
        >>> encoder = sp.SetEncoder(dim=2, hidden=16, latent=8, size=3)
        >>> decoder = sp.iDSPN(encoder, size=3, dim=2, restart=sp.Restart(share=0.1)).eval()
        >>> losses = decoder.solve(torch.randn(1000, 8)).last_loss
        >>> decoder.restart.fit(losses)
        >>> round(float((losses > decoder.restart.threshold).float().mean()), 2)
        0.1
    """

    threshold: Tensor
    pace = 0.1

    def __init__(self, share: float = 0.05, std: float = 0.1):
        super().__init__()
        if not 0 < share < 1:
            raise ValueError(f"Restart: share is {share!r}, it must lie between 0 and 1")
        if not 0 < std < torch.inf:
            raise ValueError(f"Restart: std is {std!r}, it must be above 0: the second start would be the first")
        self.share, self.std = share, std
        self.register_buffer("threshold", torch.tensor(torch.inf))

    def fit(self, losses: Tensor) -> None:
        """Set the threshold so that the largest `share` of these losses lies above it."""
        self.threshold.copy_(_usable(losses).nanquantile(1 - self.share))

    def learn(self, losses: Tensor) -> None:
        """Move the threshold by what one training batch says: up where too many lie above it, else down."""
        if not len(losses):
            return
        losses, known = _usable(losses), self.threshold
        above = (losses > known).to(known.dtype).mean()
        moved = known * torch.exp(self.pace * (above - self.share))
        moved = torch.where(known.isfinite() & (known > 0), moved, losses.nanquantile(1 - self.share))
        known.copy_(torch.where(moved.isfinite(), moved, known))

    def suspects(self, losses: Tensor, diverged: Tensor) -> Tensor:
        """Which of the examples should start again, `[batch]`: none before there is a threshold."""
        return ((losses.detach() > self.threshold) | diverged) & self.threshold.isfinite()

    def start(self, first: Tensor) -> Tensor:
        """Another start beside the first, the same at each call."""
        return first + self.std * fixed_noise(first.shape[1:], 1, first)

    def extra_repr(self) -> str:
        return f"share={self.share}, std={self.std}"


def _usable(losses: Tensor) -> Tensor:
    """In a precision that quantiles are known for, NaN where infinite."""
    losses = losses.detach().float()
    return losses.where(losses.isfinite(), torch.nan)

"""A second start for the examples whose inner loss says that the first went wrong or has not converged."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .inits import fixed_noise
from .notices import renamed_arguments


@renamed_arguments(share="fraction")
class Restart(nn.Module):
    """Solve suspicious examples a second time, from their first result plus noise, and keep the set of lower inner
    loss.

    In `eval()` an example is suspicious if it diverged, or if its inner loss at the last iteration is above
    `threshold`. So a prediction depends on its input alone. There are no restarts in training, nor where the caller
    passes the initial set.

    Args:
        fraction: fraction of examples that start a second time, which is also about the additional work. The threshold
            is fitted after training so that this fraction of the examples inside `fitting` exceeds it.
        std: standard deviation of the noise that is added to the set before the second start. It lets a descent that
            ended in a wrong place leave it; a descent that was only slow goes on in spite of it.

    Attributes:
        threshold: the inner loss above which an example starts again. It is infinite until it is fitted, so that no
            example does.

    Example:
        >>> import setpred as sp
        >>> encoder = sp.SetEncoder(dim=2, hidden=16, latent=8, size=3)
        >>> decoder = sp.iDSPN(encoder, restart=sp.Restart(fraction=0.1)).eval()
        >>> z = torch.randn(1000, 8)
        >>> with decoder.restart.fitting():  # after training, with examples of it
        ...     sets = decoder(z)
        >>> round(float(decoder.solve(z).restarted.float().mean()), 2)
        0.1
    """

    threshold: Tensor

    def __init__(self, fraction: float = 0.05, std: float = 0.5):
        super().__init__()
        if not 0 < fraction < 1:
            raise ValueError(f"Restart: fraction is {fraction!r}, it must lie between 0 and 1")
        if not 0 < std < torch.inf:
            raise ValueError(f"Restart: std is {std!r}, it must be above 0: the second start would be the first's end")
        self.fraction, self.std = fraction, std
        self.seen: list[Tensor] | None = None
        self.register_buffer("threshold", torch.tensor(torch.inf))

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Fit the threshold to the examples decoded inside this context: `fraction` of their inner losses will exceed
        it."""
        self.threshold.fill_(torch.inf)
        self.seen = []
        try:
            yield
            if self.seen:
                self.threshold.copy_(torch.cat(self.seen).nanquantile(1 - self.fraction))
        finally:
            self.seen = None

    def suspects(self, losses: Tensor, diverged: Tensor) -> Tensor:
        """Which examples should start again, `[batch]`; none before the threshold is fitted."""
        losses = losses.detach()
        if self.seen is not None:
            usable = losses.float()  # a precision that quantiles are known for
            self.seen.append(usable.where(usable.isfinite(), torch.nan))
        return ((losses > self.threshold) | diverged) & self.threshold.isfinite()

    def start(self, ends: Tensor) -> Tensor:
        """Another start near where the first descents ended, the same at each call."""
        return ends + self.std * fixed_noise(ends.shape[1:], 1, ends)

    def extra_repr(self) -> str:
        return f"fraction={self.fraction}, std={self.std}"

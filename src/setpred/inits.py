"""Initial sets: where the inner optimisation starts.

Each is a module called as `init(batch, like=z, generator=None)`, giving `[batch, size, dim]`. The decoder tells
it the shape of a set once, with `build`. `weight` is how strongly the objective pulls the set to its start.
"""

import torch
from torch import Tensor, nn

from .tensors import fixed_noise


class Init(nn.Module):
    """Base of the initial sets."""

    weight: float = 0.0
    size: int
    dim: int

    def build(self, size: int, dim: int) -> None:
        """Fix the shape of a set; called by the decoder. Decoders that share an initial set must agree."""
        built = (getattr(self, "size", size), getattr(self, "dim", dim))
        if built != (size, dim):
            raise ValueError(
                f"{type(self).__name__} already starts sets of {list(built)}, this decoder needs {[size, dim]}: "
                "give each decoder its own"
            )
        self.size, self.dim = size, dim

    def forward(self, batch: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        raise NotImplementedError


class ZeroInit(Init):
    """All elements at zero. Works only where equal elements can be separated, as with FSPool.

    >>> init = ZeroInit()
    >>> init.build(size=3, dim=2)
    >>> init(5, like=torch.zeros(5, 8)).shape
    torch.Size([5, 3, 2])
    """

    def forward(self, batch: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return like.new_zeros(batch, self.size, self.dim)


class RandomInit(Init):
    """Normal noise, fresh for every example in training.

    In `eval()` every example starts from one fixed draw, so a prediction depends on nothing but its input;
    pass a generator to draw fresh ones.

    >>> init = RandomInit(std=0.1).eval()
    >>> init.build(size=3, dim=2)
    >>> first, second = init(2, like=torch.zeros(2, 8))
    >>> torch.equal(first, second)
    True
    """

    def __init__(self, std: float = 0.1):
        super().__init__()
        self.std = _checked_spread(std)

    def forward(self, batch: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        shape = (self.size, self.dim)
        if self.training or generator is not None:
            device = like.device if generator is None else generator.device
            noise = torch.randn(batch, *shape, generator=generator, dtype=like.dtype, device=device).to(like.device)
        else:
            noise = fixed_noise(shape, 0, like).expand(batch, *shape)
        return self.std * noise

    def extra_repr(self) -> str:
        return f"std={self.std}"


class LearnedInit(Init):
    """One learned set that every example starts from.

    An implicit gradient does not see the start, so the objective also holds `weight · ½ mean (Y - Y0)²`:
    without that pull a learned start would never move.

    >>> init = LearnedInit(weight=0.1)
    >>> init.build(size=3, dim=2)
    >>> init.sets.shape, init(5, like=torch.zeros(5, 8)).shape
    (torch.Size([3, 2]), torch.Size([5, 3, 2]))
    """

    def __init__(self, std: float = 0.1, weight: float = 0.1):
        super().__init__()
        self.std, self.weight = _checked_spread(std), weight

    def build(self, size: int, dim: int) -> None:
        super().build(size, dim)
        if not hasattr(self, "sets"):
            self.sets = nn.Parameter(self.std * torch.randn(size, dim))

    def forward(self, batch: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.sets.to(like.dtype).expand(batch, -1, -1)

    def extra_repr(self) -> str:
        return f"std={self.std}, weight={self.weight}"


class GuessedInit(Init):
    """A first guess, made from z by a small network, so that the descent has a shorter way to go.

    An implicit gradient does not reach it, so it learns from a loss of its own, to be added to that of the sets. That
    loss ends at the guess: z is made for the descent alone.

    Args:
        latent: length of z.

    Example:
        >>> import setpred as sp
        >>> encoder = sp.SetEncoder(dim=2, hidden=16, latent=8, size=3)
        >>> decoder = sp.iDSPN(encoder, init=sp.GuessedInit(latent=8))
        >>> z, target = torch.randn(4, 8), torch.randn(4, 3, 2)
        >>> loss = sp.hungarian_loss(decoder(z), target).mean()
        >>> loss = loss + sp.hungarian_loss(decoder.init(len(z), z), target).mean()
    """

    def __init__(self, latent: int):
        super().__init__()
        self.latent = latent

    def build(self, size: int, dim: int) -> None:
        super().build(size, dim)
        if not hasattr(self, "net"):
            self.net = nn.Sequential(nn.Linear(self.latent, self.latent), nn.ReLU(), nn.Linear(self.latent, size * dim))

    def forward(self, batch: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if like.shape[-1] != self.latent:
            raise ValueError(f"GuessedInit: z has {like.shape[-1]} numbers, latent is {self.latent}: they must agree")
        return self.net(like.detach()).view(-1, self.size, self.dim)

    def extra_repr(self) -> str:
        return f"latent={self.latent}"


def _checked_spread(std: float) -> float:
    if not 0 <= std < torch.inf:
        raise ValueError(f"std is {std}: the spread of the initial set cannot be negative or infinite")
    return std

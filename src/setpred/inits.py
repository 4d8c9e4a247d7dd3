"""Initial sets: where the inner optimisation starts.

Each is a module that is called as `init(batch, like=z, generator=None)` and returns `[batch, size, dim]`. The decoder
sets the shape of a set once, with `build`. `weight` says how strongly the objective pulls the set to its start, and
`projected` whether a constraint applies to the start already.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

_SEEDS: ContextVar[Sequence[int] | None] = ContextVar("_SEEDS", default=None)


class Init(nn.Module):
    """Base class of the initial sets."""

    weight: float = 0.0
    projected: bool = True
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
    """All elements at zero. This works only if the encoder can separate equal elements, as `FSPool` does.

    >>> init = ZeroInit()
    >>> init.build(size=3, dim=2)
    >>> init(5, like=torch.zeros(5, 8)).shape
    torch.Size([5, 3, 2])
    """

    def forward(self, batch: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return like.new_zeros(batch, self.size, self.dim)


class RandomInit(Init):
    """Normal noise, fresh for every example in training.

    In `eval()` every example starts from the same fixed noise, so a prediction depends on its input alone; pass a
    generator to draw fresh noise. `setpred train` and `setpred evaluate` give each test example a start of its own.

    Args:
        std: standard deviation of the noise.
        projected: whether a constraint applies to the start already; otherwise it applies from the first step on.

    >>> init = RandomInit(std=0.1).eval()
    >>> init.build(size=3, dim=2)
    >>> first, second = init(2, like=torch.zeros(2, 8))
    >>> torch.equal(first, second)
    True
    """

    def __init__(self, std: float = 0.1, projected: bool = True):
        super().__init__()
        self.std, self.projected = _checked_spread(std), projected

    def forward(self, batch: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        shape = (self.size, self.dim)
        if self.training or generator is not None:
            device = like.device if generator is None else generator.device
            noise = torch.randn(batch, *shape, generator=generator, dtype=like.dtype, device=device).to(like.device)
        else:
            noise = evaluation_noise(batch, shape, like)
        return self.std * noise

    def extra_repr(self) -> str:
        return f"std={self.std}" + ("" if self.projected else ", projected=False")


class LearnedInit(Init):
    """One learned set from which every example starts. Before training it is noise with standard deviation `std`.

    An implicit gradient does not depend on the start. So that the start can learn, the objective has one more term,
    `weight · ½ mean (Y - Y0)²`, which pulls sets to their start.

    Args:
        std: standard deviation of the learned set before training.
        weight: how strongly the objective pulls sets to the learned one.

    >>> init = LearnedInit(weight=0.1)
    >>> init.build(size=3, dim=2)
    >>> init.sets.shape, init(5, like=torch.zeros(5, 8)).shape
    (torch.Size([3, 2]), torch.Size([5, 3, 2]))
    """

    def __init__(self, std: float = 0.1, weight: float = 0.1):
        super().__init__()
        if not 0 <= weight < torch.inf:
            raise ValueError(f"LearnedInit: weight is {weight}, it must be a finite number that is not negative")
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
    """An initial set that a small network computes from z, so that the descent begins nearer to the solution.

    An implicit gradient does not reach this network, so it needs a loss of its own, which you add to that of the sets
    (see the example). That loss sends no gradient to z, which is trained for the descent alone.

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
        if latent < 1:
            raise ValueError(f"GuessedInit: latent is {latent}, it must be at least 1")
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


def fixed_noise(shape: tuple[int, ...], seed: int, like: Tensor) -> Tensor:
    """Normal numbers that are the same at each call, whatever device and type they are for."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu").to(like)


def evaluation_noise(batch: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Normal numbers `[batch, *shape]` for models in `eval()`: one fixed draw that all examples share, so that a
    prediction depends on its input alone, or one draw for each example inside `seeded_examples`."""
    seeds = _SEEDS.get()
    if seeds is None:
        return fixed_noise(shape, 0, like).expand(batch, *shape)
    if len(seeds) != batch:
        raise ValueError(f"noise was seeded for {len(seeds)} examples, the batch has {batch}: give each its seed")
    return torch.stack([fixed_noise(shape, seed, like) for seed in seeds])


@contextmanager
def seeded_examples(seeds: Sequence[int]) -> Iterator[None]:
    """Inside, each example of a batch has noise of its own in `eval()`, drawn from its seed.

    A metric then does not depend on one lucky or unlucky draw, and is the same whenever it is computed.

    >>> with seeded_examples([3, 4, 3]):
    ...     first, second, third = evaluation_noise(3, (2,), torch.zeros(1))
    >>> torch.equal(first, third), torch.equal(first, second)
    (True, False)
    """
    token = _SEEDS.set(seeds)
    try:
        yield
    finally:
        _SEEDS.reset(token)

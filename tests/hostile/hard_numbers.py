"""Numbers that arithmetic trips over: not finite, denormal, of any scale, constant, equal, few, in every precision."""

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

DTYPES = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)
KINDS = ("usual", "zero", "constant", "equal elements", "constant features", "few values", "any scale")
SCALES = (1.0, 1.0, 1e3, 1e12, 1e30, 1e-12, 1e-30, 1e-40, float("inf"))  # the last: as large as the type allows
POISON = (None, None, None, float("nan"), float("inf"), -float("inf"))


@dataclass(frozen=True)
class Case:
    """A drawn case, from which any tensors can be made."""

    seed: int
    dtype: torch.dtype
    batch: int
    size: int
    dim: int
    kind: str
    scale: float
    poison: float | None
    masked: bool

    def tensor(self, *shape: int, salt: int = 0) -> Tensor:
        """Hard numbers of this shape; the last dimension is that of features, the one before that of elements."""
        generator = torch.Generator().manual_seed(self.seed + 7919 * salt)
        x = torch.randn(*shape, generator=generator, dtype=torch.float64)
        if self.kind == "zero":
            x = torch.zeros_like(x)
        elif self.kind == "constant":
            x = torch.full_like(x, x.flatten()[0].item() if x.numel() else 0.0)
        elif self.kind == "equal elements":
            x = x[..., :1, :].expand_as(x).clone() if x.dim() > 1 and x.shape[-2] else x
        elif self.kind == "constant features":
            x = x.flatten(0, -2)[:1].expand(x.flatten(0, -2).shape).reshape(x.shape).clone()
        elif self.kind == "few values":
            x = x.round()
        elif self.kind == "any scale":
            x = x * 10 ** (60 * torch.rand(x.shape, generator=generator, dtype=torch.float64) - 30)
        most = torch.finfo(self.dtype).max
        scaled = x.sign() * most if self.scale == float("inf") else (x * self.scale).clamp(-most, most)
        made = scaled.to(self.dtype)
        if self.poison is not None and made.numel():
            made.view(-1)[int(torch.randint(made.numel(), (1,), generator=generator))] = self.poison
        return made

    @property
    def sets(self) -> Tensor:
        return self.tensor(self.batch, self.size, self.dim)

    @property
    def mask(self) -> Tensor | None:
        """Which elements exist; sometimes none."""
        if not self.masked:
            return None
        generator = torch.Generator().manual_seed(self.seed)
        counts = torch.randint(0, self.size + 1, (self.batch, 1), generator=generator)
        return torch.arange(self.size) < counts

    @property
    def exists(self) -> Tensor:
        return torch.ones(self.batch, self.size, dtype=torch.bool) if self.mask is None else self.mask


cases = st.builds(
    Case,
    seed=st.integers(0, 2**31),
    dtype=st.sampled_from(DTYPES),
    batch=st.integers(1, 3),
    size=st.sampled_from((1, 2, 3, 5)),
    dim=st.sampled_from((1, 2, 4)),
    kind=st.sampled_from(KINDS),
    scale=st.sampled_from(SCALES),
    poison=st.sampled_from(POISON),
    masked=st.booleans(),
)

"""What is measured: the paper's settings, each with several implementations of the same work.

`floor` is the matrix products of the inner loop alone, back to back, each by the library that is fastest at it; `mm` is
all of them by `torch.mm`. `ours` is this package. `naive` is the loop as one
would write it: autograd, `torch.sort`, `torch.optim.SGD`, SciPy. `unrolled` is DSPN with the same number of iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from ..adjoints import Unrolled
from ..constraints import PerSlice, Simplex
from ..decoder import SetDecoder
from ..encoders import SetEncoder
from ..inits import LearnedInit, RandomInit
from ..matching import hungarian_loss
from ..solvers import GradientDescent, Nesterov
from .floor import Floor


@dataclass(frozen=True)
class Case:
    """One setting: sets of `size` elements of `dim` numbers, of which the first `known` are given."""

    name: str
    size: int
    dim: int
    hidden: int = 512
    known: int = 0
    clip: float | None = None
    batch: int = 128

    @property
    def cost(self) -> str:
        return "euclidean" if self.known else "huber"


CASES = [
    Case("autoencoding n=2", 2, 2),
    Case("autoencoding n=8", 8, 8),
    Case("autoencoding n=16", 16, 16),
    Case("autoencoding n=32", 32, 32),
    Case("CLEVR n=10", 10, 19, clip=10.0),
    Case("numbering n=64", 64, 68, hidden=256, known=4, clip=40.0),
]


class Workload:
    """A case with its data and models, ready to run."""

    def __init__(self, case: Case, device: str = "cpu"):
        torch.manual_seed(0)
        self.case = case
        self.target = torch.randn(case.batch, case.size, case.dim - case.known, device=device)
        self.classes = torch.randint(max(case.known, 1), (case.batch, case.size), device=device)
        known = nn.functional.one_hot(self.classes, max(case.known, 1)).float()[..., : case.known]
        self.given = torch.arange(case.dim, device=device) < case.known
        self.values = torch.cat([known, torch.zeros_like(self.target)], dim=-1)
        self.inputs = known if case.known else self.target
        self.input_encoder = SetEncoder(self.inputs.shape[-1], case.hidden, case.hidden, case.size).to(device)
        self.encoder = SetEncoder(case.dim, case.hidden, case.hidden, case.size).to(device)
        with torch.no_grad():
            self.z = self.input_encoder(self.inputs)
        w1, _, w2, _ = self.encoder.net.parameters()
        self.floor = Floor(w1, w2, case.batch * case.size)

    def inner_loops(self, steps: int) -> dict[str, Callable[[], Any]]:
        """The inner loop without a graph."""
        ours, naive = self._decoder(steps), self._naive(steps)

        def decode() -> None:
            with torch.no_grad():
                ours(self.z, known=self._known())

        floors = {"floor": partial(self.floor.best, steps), "mm": partial(self.floor.torch, steps)}
        return {**floors, "ours": decode, "naive": partial(naive.minimise, self.z, steps)}

    def training_steps(self, steps: int) -> dict[str, Callable[[], Any]]:
        """A whole training step: encode, decode, match, backward, Adam."""
        ours, naive = self._decoder(steps), self._naive(steps)
        dspn = self._decoder(steps, unrolled=True)

        def by_matching(sets: Tensor) -> Tensor:
            return hungarian_loss(sets, self.target, self.case.cost, same_class=self._same_class()).mean()

        def by_scipy(sets: Tensor) -> Tensor:
            return naive_hungarian_loss(sets, self.target, self.case.cost, self._same_class())

        return {
            "ours": self._step(lambda z: self._free(ours(z, known=self._known())), by_matching, ours),
            "naive": self._step(lambda z: self._free(naive(z, steps)), by_scipy, naive),
            "unrolled": self._step(lambda z: self._free(naive.unrolled(z, steps)), by_scipy, naive),
            "dspn": self._step(lambda z: self._free(dspn(z, known=self._known())), by_matching, dspn),
        }

    def matching(self) -> Callable[[], Any]:
        sets = torch.randn_like(self.target)
        return lambda: hungarian_loss(sets, self.target, self.case.cost, same_class=self._same_class())

    def _decoder(self, steps: int, unrolled: bool = False) -> SetDecoder:
        case = self.case
        return SetDecoder(
            self.encoder,
            solver=GradientDescent(steps) if unrolled else Nesterov(steps, clip=case.clip),
            init=RandomInit() if case.known or case.clip else LearnedInit(),
            constraint=PerSlice({(case.known, case.dim): Simplex()}) if case.known else None,
            adjoint=Unrolled() if unrolled else None,
        ).to(self.z.device)

    def _naive(self, steps: int) -> NaiveDecoder:
        case = self.case
        return NaiveDecoder(self.encoder, case.size, case.dim, self.values, case.known, case.clip)

    def _step(self, decode: Callable[[Tensor], Tensor], loss: Callable[[Tensor], Tensor], decoder: nn.Module) -> Any:
        parameters = [*self.input_encoder.parameters(), *decoder.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=1e-5, fused=True)  # as in training

        def step() -> None:
            optimizer.zero_grad()
            loss(decode(self.input_encoder(self.inputs))).backward()
            optimizer.step()

        return step

    def _known(self) -> tuple[Tensor, Tensor] | None:
        return (self.values, self.given) if self.case.known else None

    def _same_class(self) -> Tensor | None:
        return self.classes if self.case.known else None

    def _free(self, sets: Tensor) -> Tensor:
        return sets[..., self.case.known :]


class NaiveDecoder(nn.Module):
    """iDSPN with autograd, `torch.sort` and `torch.optim.SGD`, and the gradient of one step at the end."""

    def __init__(self, encoder: SetEncoder, size: int, dim: int, values: Tensor, known: int, clip: float | None):
        super().__init__()
        self.net, self.weight = encoder.net, encoder.pool.weight
        self.size, self.dim, self.values, self.known, self.clip = size, dim, values, known, clip

    def forward(self, z: Tensor, steps: int) -> Tensor:
        sets = self.minimise(z.detach(), steps - 1).detach().requires_grad_()
        (grad,) = torch.autograd.grad(self.loss(sets, z), sets, create_graph=True)
        step = self.project(sets.detach() - grad)
        return sets.detach() + (step - step.detach())

    def unrolled(self, z: Tensor, steps: int) -> Tensor:
        """DSPN: plain gradient descent with every iteration in the graph."""
        sets = self.project(0.1 * torch.randn(len(z), self.size, self.dim, device=z.device)).requires_grad_()
        for _ in range(steps):
            (grad,) = torch.autograd.grad(self.loss(sets, z), sets, create_graph=True)
            sets = self.project(sets - grad)
        return sets

    def minimise(self, z: Tensor, steps: int) -> Tensor:
        sets = self.project(0.1 * torch.randn(len(z), self.size, self.dim, device=z.device)).requires_grad_()
        optimizer = torch.optim.SGD([sets], lr=1.0, momentum=0.9, nesterov=True)
        for _ in range(steps):
            (grad,) = torch.autograd.grad(self.loss(sets, z), sets)
            if self.clip is not None:
                norm = grad.norm(dim=(1, 2), keepdim=True)
                grad = grad * (self.clip / (norm + 1e-6)).clamp(max=1)
            sets.grad = grad
            optimizer.step()
            sets.data = self.project(sets.data)
        return sets

    def loss(self, sets: Tensor, z: Tensor) -> Tensor:
        if self.known:
            sets = torch.cat([self.values[..., : self.known], sets[..., self.known :]], dim=-1)
        ranked = self.net(sets).sort(dim=1).values
        encoding = torch.einsum("bnc,nc->bc", ranked, self.weight)
        return 0.5 * (encoding - z).square().mean(dim=1).sum()

    def project(self, sets: Tensor) -> Tensor:
        if not self.known:
            return sets
        x = sets[..., self.known :]
        ranked = x.sort(dim=-1, descending=True).values
        count = torch.arange(1, x.shape[-1] + 1, device=x.device)
        thresholds = (ranked.cumsum(dim=-1) - 1) / count
        support = (ranked > thresholds).sum(dim=-1, keepdim=True)
        projected = (x - thresholds.gather(-1, support - 1)).relu()
        return torch.cat([sets[..., : self.known], projected], dim=-1)


def naive_hungarian_loss(prediction: Tensor, target: Tensor, cost: str, classes: Tensor | None) -> Tensor:
    """Every pair at once, then SciPy example by example."""
    if cost == "euclidean":
        pairs = (prediction.unsqueeze(2) - target.unsqueeze(1)).norm(dim=-1)
    else:
        a, b = torch.broadcast_tensors(prediction.unsqueeze(2), target.unsqueeze(1))
        pairs = nn.functional.smooth_l1_loss(a, b, reduction="none").mean(dim=-1)
    matched = pairs.detach()
    if classes is not None:
        matched = matched + 1e3 * (classes.unsqueeze(2) != classes.unsqueeze(1))
    total = prediction.new_zeros(())
    for example, costs in zip(pairs, matched.cpu().numpy(), strict=True):
        rows, columns = linear_sum_assignment(costs)
        total = total + example[rows, columns].mean()
    return total / len(prediction)

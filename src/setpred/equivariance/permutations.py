"""Check set-equivariance and multiset-equivariance by permuting inputs."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from .probing import SetFunction, answer, given_sets, hard_sets, rounding, working_dtype

Noise = Literal["fixed", "joint", "zero"]
NOISE_IN_WORDS = {
    None: "no noise",
    "fixed": "noise fixed: held in place by position",
    "joint": "noise joint: permuted with the elements, part of the input",
    "zero": "noise zero",
}


@dataclass(frozen=True, eq=False)
class Witness:
    """An input and a permutation for which a property fails. Permutations are indices: `P X` is `X[p]`."""

    failed: Literal["set-equivariance", "multiset-equivariance"]
    X: Tensor
    """`[n, dim]`, the input."""
    noise: Tensor | None
    """`[n, noise_dim]`, the noise that was passed with X."""
    p1: Tensor
    """`[n]`, the permutation of the input."""
    p2: Tensor | None
    """`[n]`, with P2 X = P1 X and f(P1 X) = P2 f(X); None if multiset-equivariance fails."""
    of_permuted: Tensor
    """`[n, out]`, f(P1 X)."""
    permuted: Tensor
    """`[n, out]`, P1 f(X)."""
    deviation: float
    """The distance of f(P1 X) from P1 f(X), or from the closest P2 f(X) if multiset-equivariance fails."""
    exchange: Tensor | None = None
    """`[n]`, if no P2 exists: a P with f(P1 X) = P f(X) but P X not P1 X; None if there is no such P either."""

    def __repr__(self) -> str:
        where = f"at X = {_shown(self.X)}, P1 = {self.p1.tolist()}"
        if self.exchange is not None:
            return (
                f"{self.failed} fails: no P2 with P2 X = P1 X has P2 f(X) = f(P1 X), but P = {self.exchange.tolist()} "
                f"has P f(X) = f(P1 X): different elements changed places\n{where}"
            )
        if self.p2 is None:
            return (
                f"{self.failed} fails: no P2 with P2 X = P1 X has P2 f(X) = f(P1 X), "
                f"the best is off by {self.deviation:.3g}\n{where}"
            )
        return (
            f"{self.failed} fails: P1 f(X) is off f(P1 X) by {self.deviation:.3g}\n"
            f"{where}; P2 = {self.p2.tolist()} has both P2 X = P1 X and P2 f(X) = f(P1 X)"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What `check` found. A verdict of True means that no counterexample was found among `tried`."""

    set_equivariant: bool
    multiset_equivariant: bool
    exchanging: bool
    """The function is not multiset-equivariant, but f(P1 X) and f(X) always held the same elements. Different elements
    changed places. This happens if they become equal inside the function and are then separated by index."""
    witness: Witness | None
    """The worst counterexample to the weakest property that fails; None if both hold."""
    noise: Noise | None
    tried: int
    """The number of pairs of an input and a permutation."""
    tried_with_equals: int
    """The number of those pairs with equal elements. Without equal elements the two properties are the same."""
    tolerance: float
    """The largest deviation that counts as rounding."""
    dtype: torch.dtype

    @property
    def exclusive(self) -> bool:
        """Multiset- but not set-equivariant: the order does not matter, and equal elements can be separated."""
        return self.multiset_equivariant and not self.set_equivariant

    @property
    def verdict(self) -> str:
        """The finding in words."""
        if self.set_equivariant:
            return "set-equivariant (and so multiset-equivariant)"
        if self.exchanging:
            return "multiset-equivariant but for elements that met on the way and changed places"
        return "exclusively multiset-equivariant" if self.exclusive else "neither set- nor multiset-equivariant"

    def __repr__(self) -> str:
        lines = [
            f"{self.verdict}; {NOISE_IN_WORDS[self.noise]}",
            f"{self.tried} permuted inputs, {self.tried_with_equals} with equal elements, "
            f"{str(self.dtype).removeprefix('torch.')}, tolerance {self.tolerance:.1e}",
        ]
        if not self.tried_with_equals:
            lines.append("no input had equal elements: set- and multiset-equivariance are the same here")
        if self.witness is not None:
            lines.append(repr(self.witness))
        return "\n".join(lines)


def check(
    fn: SetFunction,
    inputs: Tensor | None = None,
    *,
    size: int = 5,
    dim: int = 1,
    noise_dim: int | None = None,
    noise: Noise = "joint",
    permutations: int | Tensor = 4,
    tolerance: float | None = None,
    seed: int = 0,
) -> Report:
    """Search for counterexamples to set-equivariance and to multiset-equivariance.

    Set-equivariance: f(P1 X) = P1 f(X) for every P1. Multiset-equivariance: for every P1 there is a P2 with
    P2 X = P1 X and f(P1 X) = P2 f(X). P2 is searched for within the groups of equal elements of X. Inside `fn`, matrix
    products are computed such that equal rows give equal results, which fast libraries do not guarantee.

    Check a model that sorts in float64, with `.double()`. In float32, rounding sometimes decides which of two features
    is larger, and `check` would report this as a failure.

    Args:
        fn: a function `[batch, n, dim] -> [batch, n, out]`. With `noise_dim`, it also takes noise as its second
            argument, `[batch, n, noise_dim]`.
        inputs: `[batch, n, dim]` or `[n, dim]`; by default `hard_sets(size, dim)`, in float64 if
            `fn` takes it.
        size: elements in a generated set.
        dim: entries of a generated element.
        noise_dim: entries of noise per element; None if `fn` takes no noise.
        noise: what a permutation does to the noise. "joint": noise moves with the elements and is part of the input, so
            two elements are equal only if their noise is, too. "fixed": noise stays in place. "zero": noise is 0.
        permutations: the number of permutations to try per input (the reversal, then random ones), or the permutations
            themselves, `[k, n]`.
        tolerance: the largest deviation that counts as rounding, relative to the largest output; by default half the
            digits.
        seed: seed of inputs, permutations and noise.

    >>> check(lambda X: X - X.mean(dim=1, keepdim=True)).set_equivariant
    True
    >>> check(lambda X: X.cumsum(dim=1), torch.tensor([[0.0], [2.0]]), permutations=1)
    neither set- nor multiset-equivariant; no noise
    1 permuted inputs, 0 with equal elements, float32, tolerance 7.1e-04
    no input had equal elements: set- and multiset-equivariance are the same here
    multiset-equivariance fails: no P2 with P2 X = P1 X has P2 f(X) = f(P1 X), the best is off by 2
    at X = [[0], [2]], P1 = [1, 0]
    """
    if noise not in get_args(Noise):
        raise ValueError(f"noise is {noise!r}: choose one of {', '.join(get_args(Noise))}")
    each = len(permutations) if isinstance(permutations, Tensor) else permutations
    if each < 1 or (noise_dim is not None and noise_dim < 1):
        raise ValueError(f"got permutations={each}, noise_dim={noise_dim}: each must be at least 1")
    generator = torch.Generator().manual_seed(seed)
    if inputs is None:
        sets = hard_sets(size, dim, seed=seed)
        dtype = working_dtype(fn, sets, *_draw(sets, noise_dim, noise, generator))
        sets = hard_sets(size, dim, seed=seed, dtype=dtype)
    else:
        sets = given_sets(inputs)
    sets = sets.repeat_interleave(each, dim=0)
    extra = _draw(sets, noise_dim, noise, generator)
    p1 = _permutations(sets, permutations, generator).to(sets.device)

    out = answer(fn, sets, *extra)
    tol = rounding(sets, out, tolerance)
    if (out - answer(fn, sets, *extra)).abs().max() > tol:
        raise ValueError(
            "fn answers differently to the same input: call eval() on it, or pass its noise with noise_dim"
        )
    moved_extra = [_permute(rows, p1) for rows in extra] if noise == "joint" else extra
    of_permuted = answer(fn, _permute(sets, p1), *moved_extra)
    permuted = _permute(out, p1)

    identity = torch.cat([sets, *extra], dim=-1) if noise == "joint" else sets
    groups = _groups(identity)
    deviation = (of_permuted - permuted).abs().amax(dim=(1, 2))
    witnesses = []
    for k in (deviation > tol).nonzero().flatten().tolist():
        p2, best = _find_p2(groups[k], p1[k], out[k], of_permuted[k], tol)
        exchange = None
        if p2 is None:
            exchange, _ = _find_p2(torch.zeros_like(groups[k]), p1[k], out[k], of_permuted[k], tol)
        witnesses.append(
            Witness(
                failed="multiset-equivariance" if p2 is None else "set-equivariance",
                X=sets[k],
                noise=extra[0][k] if extra else None,
                p1=p1[k],
                p2=p2,
                of_permuted=of_permuted[k],
                permuted=permuted[k],
                deviation=best if p2 is None else float(deviation[k]),
                exchange=exchange,
            )
        )
    lacking = [w for w in witnesses if w.p2 is None]
    return Report(
        set_equivariant=not witnesses,
        multiset_equivariant=not lacking,
        exchanging=bool(lacking) and all(w.exchange is not None for w in lacking),
        witness=max(lacking or witnesses, key=lambda w: (w.exchange is None, w.deviation), default=None),
        noise=noise if noise_dim is not None else None,
        tried=len(sets),
        tried_with_equals=int((groups != torch.arange(sets.shape[1])).any(dim=1).sum()),
        tolerance=tol,
        dtype=out.dtype,
    )


def _find_p2(group: Tensor, p1: Tensor, out: Tensor, of_permuted: Tensor, tol: float) -> tuple[Tensor | None, float]:
    """P2 with P2 X = P1 X and f(P1 X) = P2 f(X) up to `tol`, or None; and the largest deviation it leaves."""
    p1_, group_ = p1.cpu().numpy(), group.numpy()
    apart = (of_permuted[:, None] - out[None]).abs().amax(dim=-1).double().cpu().numpy()
    p2 = np.empty_like(p1_)
    for label in np.unique(group_):
        sources = np.flatnonzero(group_ == label)
        places = np.flatnonzero(group_[p1_] == label)
        cost = apart[np.ix_(places, sources)]
        # One pair beyond the tolerance must cost more than any number of pairs within it.
        rows, columns = linear_sum_assignment(cost + (cost > tol) * (1 + cost.sum()))
        p2[places[rows]] = sources[columns]
    worst = float(apart[np.arange(len(p2)), p2].max())
    return (torch.from_numpy(p2).to(p1.device) if worst <= tol else None), worst


def _groups(sets: Tensor) -> Tensor:
    """`[batch, n]`: for each element the index of the first one equal to it."""
    equal = (sets[:, :, None] == sets[:, None]).all(dim=-1)
    return equal.int().argmax(dim=-1).cpu()


def _permute(sets: Tensor, p: Tensor) -> Tensor:
    return sets.gather(1, p[..., None].expand(-1, -1, sets.shape[-1]))


def _permutations(sets: Tensor, wanted: int | Tensor, generator: torch.Generator) -> Tensor:
    """`[batch, n]`: the wanted ones over and over; of a number, the reversal first, which reorders any equals."""
    count, n = sets.shape[:2]
    if isinstance(wanted, Tensor):
        if wanted.ndim != 2 or not torch.equal(wanted.sort(dim=1).values.cpu(), torch.arange(n).expand(len(wanted), n)):
            raise ValueError(f"permutations are {list(wanted.shape)}: give [k, {n}], each row an order of 0 to {n - 1}")
        return wanted.repeat(count // len(wanted), 1)
    p = torch.rand(count, n, generator=generator).argsort(dim=-1)
    p[::wanted] = torch.arange(n).flip(0)
    return p


def _draw(sets: Tensor, noise_dim: int | None, noise: Noise, generator: torch.Generator) -> list[Tensor]:
    """The noise argument of `fn`, if it has one; equal elements share theirs in every second set."""
    if noise_dim is None:
        return []
    rows = torch.randn(*sets.shape[:2], noise_dim, generator=generator, dtype=sets.dtype).to(sets.device)
    if noise == "zero":
        return [torch.zeros_like(rows)]
    if noise == "joint":
        rows[::2] = _permute(rows, _groups(sets).to(sets.device))[::2]
    return [rows]


def _shown(X: Tensor) -> str:
    rows = ", ".join("[" + ", ".join(f"{x:.4g}" for x in row) + "]" for row in X.tolist())
    return f"[{rows}]" if X.numel() <= 24 else f"a {X.shape[0]}×{X.shape[1]} set (.X)"

"""No function of the library turns hard numbers into a silent NaN.

What judges or predicts (decoders, losses, metrics, schemas, predictors) gives finite results or says in a sentence what
is wrong. What only computes (poolings, encoders, constraints) keeps NaN visible and inside its example, so that one of
the former meets it.
"""

from collections.abc import Callable

import pytest
import torch
from fuzz import is_ours
from hard_numbers import Case, cases
from hypothesis import given, settings
from torch import Tensor

import setpred as sp
from setpred.metrics import score_objects

CASES = [pytest.param(18, id="few"), pytest.param(600, id="many", marks=pytest.mark.nightly)]


def tried(count: int, prove: Callable[[Case], None]) -> int:
    """How many cases a property held for."""
    seen = 0

    @settings(max_examples=count)
    @given(cases)
    def holds(case: Case) -> None:
        nonlocal seen
        seen += 1
        torch.manual_seed(0)
        prove(case)

    holds()
    return seen


# What only computes.


def encoder(case: Case, pool: str = "fs", kind: type = sp.SetEncoder) -> torch.nn.Module:
    return kind(case.dim, hidden=4, latent=3, size=3, pool=pool).to(case.dtype)


def fields(case: Case) -> sp.PerSlice:
    return sp.PerSlice({(0, 1): sp.Box(0.0, 1.0)} if case.dim == 1 else {(0, 2): sp.Simplex()})


LAYERS: dict[str, Callable[[Case, Tensor, Tensor | None], Tensor]] = {
    "SumPool": lambda case, x, mask: sp.SumPool()(x, mask),
    "MeanPool": lambda case, x, mask: sp.MeanPool()(x, mask),
    "MaxPool": lambda case, x, mask: sp.MaxPool()(x, mask),
    "FSPool": lambda case, x, mask: sp.FSPool(case.dim, 3).to(case.dtype)(x, mask),
    "SetEncoder": lambda case, x, mask: encoder(case)(x, mask),
    "SetEncoder, sum": lambda case, x, mask: encoder(case, "sum")(x, mask),
    "SetEncoder, max": lambda case, x, mask: encoder(case, "max")(x, mask),
    "RelationEncoder": lambda case, x, mask: encoder(case, kind=sp.RelationEncoder)(x, mask),
    "DeepSets": lambda case, x, mask: sp.baselines.DeepSets(case.dim, 2, hidden=4).to(case.dtype)(x, mask),
    "BiLSTM": lambda case, x, mask: sp.baselines.BiLSTM(case.dim, 2, hidden=4).to(case.dtype)(x),
}
CONSTRAINTS: dict[str, Callable[[Case], sp.constraints.Constraint]] = {
    "Simplex": lambda case: sp.Simplex(),
    "Box": lambda case: sp.Box(-1.0, 2.0),
    "NonNegative": lambda case: sp.NonNegative(),
    "Ball": lambda case: sp.Ball(2.0),
    "Sphere": lambda case: sp.Sphere(2.0),
    "PerSlice": fields,
}


@pytest.mark.parametrize("count", CASES)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_make_no_nan_and_hide_none(name, count, note):
    def prove(case: Case) -> None:
        sets, mask = case.sets, case.mask
        out = LAYERS[name](case, sets, mask).flatten(1)
        seen = sets.where(case.exists[..., None], 0).flatten(1) if name != "BiLSTM" else sets.flatten(1)
        # Half precision has few numbers to sum into.
        tame = (seen.abs() <= (500 if case.dtype == torch.float16 else 1e30)).all(1)
        assert out[tame].isfinite().all()
        assert out[seen.isnan().any(1)].isnan().any(1).all()

    note("cases", tried(count, prove))


NETWORKS: dict[str, Callable[[Case], torch.nn.Module]] = {
    "SetEncoder": encoder,
    "SetEncoder, sum": lambda case: encoder(case, "sum"),
    "SetEncoder, max": lambda case: encoder(case, "max"),
    "RelationEncoder": lambda case: encoder(case, kind=sp.RelationEncoder),
    "DeepSets": lambda case: sp.baselines.DeepSets(case.dim, 2, hidden=4).to(case.dtype),
    "BiLSTM": lambda case: sp.baselines.BiLSTM(case.dim, 2, hidden=4).to(case.dtype),
    "Transformer": lambda case: sp.baselines.Transformer(case.dim, 2, width=8).to(case.dtype),
}


@pytest.mark.parametrize("count", CASES)
@pytest.mark.parametrize("name", NETWORKS)
def test_padding_reaches_neither_results_nor_gradients(name, count, note):
    def prove(case: Case) -> None:
        mask = case.exists
        if name == "BiLSTM":  # which refuses sets without elements
            mask[:, 0] = True
        clean = torch.randn(case.batch, case.size, case.dim, dtype=case.dtype) * mask[..., None]
        network = NETWORKS[name](case)
        results = []
        for sets in (clean, clean.where(mask[..., None], case.sets)):
            network.zero_grad()
            out = network(sets, mask)
            out.sum().backward()
            results.append([out, *(p.grad.clone() for p in network.parameters())])
        for one, other in zip(*results, strict=True):
            assert torch.equal(one, other)

    note("cases", tried(count, prove))


@pytest.mark.parametrize("count", CASES)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_projections_end_where_they_should(name, count, note):
    def prove(case: Case) -> None:
        constraint, sets = CONSTRAINTS[name](case), case.sets.requires_grad_()
        out = constraint(sets)
        finite = sets.isfinite().all(-1)
        assert out[sets.isnan().any(-1)].isnan().any(-1).all()
        assert out[finite].isfinite().all()
        again = constraint(out.detach())
        near = 0.02 if case.dtype in (torch.float16, torch.bfloat16) else 1e-4
        assert (again - out)[finite].abs().le(near).all()
        if name == "Sphere":
            assert (out[finite].detach().double().norm(dim=-1) - 2).abs().le(near).all()
        if name == "Simplex":
            assert (out[finite].detach().double().sum(-1) - 1).abs().le(case.dim * near).all()
        # Between the smallest and the largest numbers; at the very ends a Jacobian of 1 / |x| is not a number.
        usual = finite & sets.detach().norm(dim=-1).float().clamp(max=1e30).ge(1e-3)
        (grad,) = torch.autograd.grad(out[usual].sum(), sets)
        assert grad[usual].isfinite().all()

    note("cases", tried(count, prove))


# What judges or predicts.


def solver(case: Case) -> sp.solvers.Solver:
    choices = (
        sp.Nesterov(3, clip=10.0),
        sp.GradientDescent(3, lr=1e3),
        sp.TorchOptimizer(torch.optim.Adam, steps=3, lr=0.1),
        sp.Nesterov(3, tol=1e-3),
    )
    return choices[case.seed % len(choices)]


def decoded(case: Case, model: type = sp.iDSPN, **parts: object) -> list[Tensor]:
    """What a decoder gives, and the gradients of its parameters; start and what is known are hard, too."""
    parts = {"solver": solver(case), **parts}
    inner = sp.SetEncoder(case.dim, hidden=4, latent=3, size=case.size)
    decoder = model(inner, size=case.size, dim=case.dim, **parts).to(case.dtype)
    z = case.tensor(case.batch, 3, salt=1)
    arguments: dict[str, object] = {"mask": case.mask}
    if case.seed % 3 == 1:
        arguments["init"] = case.sets
    if case.seed % 3 == 2:
        given = torch.zeros(case.batch, case.size, case.dim, dtype=torch.bool)
        given[:, 0] = True
        arguments["known"] = (case.sets, given)
    solution = decoder.solve(z, **arguments, trace=case.seed % 5 == 0)
    sets = decoder(z.requires_grad_(), **arguments)
    assert solution.diverged.shape == (case.batch,)
    fine = ~solution.diverged
    results = [solution.sets, sets, solution.loss[fine], solution.grad_norm[fine], *decoder.diagnostics.values()]
    if sets.requires_grad and all(t.abs().max() <= 1e12 for t in (z, sets) if t.numel()):
        # Where numbers are of a size whose squares exist: beyond, what is differentiated has no finite gradient.
        loss = sp.hungarian_loss(sets, torch.zeros_like(sets)).mean()
        loss.backward()
        if case.dtype in (torch.float32, torch.float64) and case.scale <= 1e3:
            results += [p.grad for p in decoder.parameters() if p.grad is not None]
    return results


def constrained(case: Case) -> list[Tensor]:
    constraint = list(CONSTRAINTS.values())[case.seed % len(CONSTRAINTS)](case)
    return decoded(case, constraint=constraint)


def loss(function: Callable[..., Tensor], cost: str) -> Callable[[Case], list[Tensor]]:
    def of(case: Case) -> list[Tensor]:
        prediction = case.sets.requires_grad_()
        target = case.tensor(case.batch, max(1, case.size - case.seed % 2), case.dim, salt=2)
        mask = None if case.mask is None else case.mask[:, : target.shape[1]]
        value = function(prediction, target, cost=cost, target_mask=mask)
        value.sum().backward()
        # In float16 the gradient of a square may exceed what the type can hold.
        return [value] if case.dtype == torch.float16 else [value, prediction.grad]

    return of


def assigned(case: Case) -> list[Tensor]:
    cost = case.tensor(case.batch, case.size, case.dim)
    pairs = sp.assign(cost, prediction_mask=case.mask)
    assert (pairs.prediction < case.size).all()
    assert (pairs.target < case.dim).all()
    return []


def accuracy(case: Case) -> list[Tensor]:
    target = torch.nn.functional.one_hot(torch.zeros(case.batch, case.size, dtype=torch.long), case.dim)
    return [sp.ExactSetAccuracy()(case.sets, target, target_mask=case.mask)]


def schema(case: Case) -> sp.Schema:
    kinds = {
        "at": sp.Real(case.dim, range=(-5, 5)) if case.seed % 2 else sp.Real(case.dim, scale=10.0),
        "way": sp.Angle(),
        "kind": sp.Category("cat", "dog"),
        "legs": sp.Count(4),
        "tame": sp.Flag(),
    }
    return sp.Schema(kinds, size=case.size)


def elements(case: Case, salt: int = 0) -> Tensor:
    return case.tensor(case.batch, case.size, schema(case).dim, salt=salt)


def targets(case: Case) -> Tensor:
    thing = {"at": [1.0] * case.dim, "way": 45.0, "kind": "dog", "legs": 2, "tame": True}
    return schema(case).encode_batch([[thing] * case.size] * case.batch)[0].to(case.dtype)


def precision(case: Case) -> list[Tensor]:
    return list(sp.SetAveragePrecision(schema(case))(elements(case), targets(case)).values())


def agreed(case: Case) -> list[Tensor]:
    found = score_objects(
        schema(case), elements(case), targets(case), torch.ones(case.batch, case.size, dtype=torch.bool)
    )
    return [found.score, found.fields]


def numbers_in(value: object) -> Tensor:
    """All floats in nested lists and dictionaries."""
    found: list[float] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list):
            waiting += item.values() if isinstance(item, dict) else item
        elif isinstance(item, float):
            found.append(item)
    return torch.tensor(found, dtype=torch.float64)


def decoded_objects(case: Case) -> list[Tensor]:
    return [numbers_in(schema(case).decode_batch(elements(case), threshold=-torch.inf))]


def closeness(case: Case) -> list[Tensor]:
    near = schema(case).closeness(elements(case), elements(case, salt=1))
    assert ((near >= 0) & (near <= 1)).all()
    return [near]


def encoded_objects(case: Case) -> list[Tensor]:
    rows = case.tensor(case.size, case.dim + 3).tolist()
    objects = [
        {"at": row[: case.dim], "way": row[-3], "kind": "cat", "legs": row[-2], "tame": row[-1] > 0} for row in rows
    ]
    return [schema(case).encode(objects)]


def predictor(case: Case) -> sp.SetPredictor:
    kinds = schema(case)
    inner = sp.SetEncoder(kinds.dim, hidden=4, latent=3, size=case.size)
    decoder = sp.iDSPN(inner, size=case.size, dim=kinds.dim, solver=solver(case))
    return sp.SetPredictor(sp.VectorEncoder(case.dim, hidden=4, latent=3), decoder, kinds).to(case.dtype)


def predicted(case: Case) -> list[Tensor]:
    inputs = case.tensor(case.batch, case.dim)
    objects = predictor(case).predict(inputs, threshold=-1e9)
    return [predictor(case)(inputs), numbers_in(objects)]


def checked(case: Case) -> list[Tensor]:
    report = sp.equivariance.check(encoder_like_map(case), case.sets, permutations=2)
    return [numbers_in([report.tolerance])]


def encoder_like_map(case: Case) -> Callable[[Tensor], Tensor]:
    return lambda sets: sets - sets.mean(dim=1, keepdim=True)


def continuous(case: Case) -> list[Tensor]:
    report = sp.equivariance.continuity(sp.equivariance.sort_jacobian, case.sets[..., :1])
    return [torch.from_numpy(report.outputs), numbers_in([report.jump])]


def image_vectors(case: Case) -> list[Tensor]:
    images = case.tensor(1, 3, 64, 64)
    return [sp.ImageEncoder(latent=2, size=64, width=1).to(case.dtype).eval()(images)]


def padded(case: Case) -> list[Tensor]:
    rows = [case.tensor(case.size, case.dim), case.tensor(1, case.dim, salt=1)]
    sets, mask = sp.pad_sets(rows)
    for one, row in zip(sets, rows, strict=True):
        assert torch.equal(one[: len(row)].nan_to_num(), row.nan_to_num())
    return [sets[~mask]]


JUDGES: dict[str, Callable[[Case], list[Tensor]]] = {
    "iDSPN": decoded,
    "DSPN": lambda case: decoded(case, sp.DSPN, solver=sp.GradientDescent(3, lr=(1.0, 1e3)[case.seed % 2])),
    "ConjugateGradient": lambda case: decoded(case, adjoint=sp.ConjugateGradient(2, gamma=(None, 1.0)[case.seed % 2])),
    "constraints": constrained,
    "LearnedInit": lambda case: decoded(case, init=sp.LearnedInit()),
    "hungarian_loss, huber": loss(sp.hungarian_loss, "huber"),
    "hungarian_loss, squared": loss(sp.hungarian_loss, "squared"),
    "hungarian_loss, euclidean": loss(sp.hungarian_loss, "euclidean"),
    "hungarian_loss, cross_entropy": loss(sp.hungarian_loss, "cross_entropy"),
    "chamfer_loss": loss(sp.chamfer_loss, "huber"),
    "assign": assigned,
    "ExactSetAccuracy": accuracy,
    "SetAveragePrecision": precision,
    "agreement": agreed,
    "Schema.decode": decoded_objects,
    "Schema.encode": encoded_objects,
    "Schema.closeness": closeness,
    "SetPredictor": predicted,
    "equivariance.check": checked,
    "equivariance.continuity": continuous,
    "ImageEncoder": image_vectors,
    "pad_sets": padded,
}


@pytest.mark.parametrize("count", CASES)
@pytest.mark.parametrize("name", JUDGES)
def test_judges_give_finite_results_or_a_sentence(name, count, note):
    refused = 0

    def prove(case: Case) -> None:
        nonlocal refused
        try:
            results = JUDGES[name](case)
        except ValueError as error:
            assert is_ours(error)  # noqa: PT017
            refused += 1
            return
        for result in results:
            assert result.isfinite().all()

    note("cases", tried(count, prove))
    note("refused", refused)

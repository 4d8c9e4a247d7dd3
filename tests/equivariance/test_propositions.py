"""Appendices A and B: definitions and propositions, each as a property of programs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from setpred.equivariance import check, continuity, hard_sets, push_apart, sort_jacobian

few = settings(max_examples=8, deadline=None)
seeds = st.integers(0, 2**31)
sizes = st.integers(2, 7)
small_integers = st.lists(st.integers(-2, 2).map(float), min_size=2, max_size=7)


def sort2_jacobian(sets: Tensor) -> Tensor:
    """Like the Jacobian of sorting, but equal scalars share their places evenly."""
    x = sets[..., 0]
    below = (x[..., None, :] < x[..., :, None]).sum(dim=-1, keepdim=True)
    equal = (x[..., None, :] == x[..., :, None]).sum(dim=-1, keepdim=True)
    place = torch.arange(sets.shape[-2])
    return ((place >= below) & (place < below + equal)) / equal.to(sets.dtype)


def add_one_to_distinct_integers(sets: Tensor) -> Tensor:
    entries = sets.flatten(1)
    pairs_equal = (entries[:, :, None] == entries[:, None]).sum(dim=(1, 2))
    fits = (entries == entries.round()).all(dim=1) & (pairs_equal == entries.shape[1])
    return sets + fits[:, None, None]


def count_exact_duplicates(sets: Tensor) -> Tensor:
    equal = (sets[:, :, None] == sets[:, None]).all(dim=-1)
    return torch.cat([sets, equal.tril(-1).sum(dim=-1, keepdim=True).to(sets)], dim=-1)


def deep_sets(seed: int, dim: int = 1) -> nn.Module:
    from setpred.baselines import DeepSets

    torch.manual_seed(seed)
    return DeepSets(dim, out=3, hidden=8).double()


def separation(outputs: Tensor) -> float:
    """The smallest distance between two elements of the same set."""
    return float(torch.stack([torch.pdist(Y).min() for Y in outputs]).min())


def similar(size: int, seed: int, gap: float) -> tuple[Tensor, Tensor]:
    """A set of equal scalars, and the same set with its elements `gap` apart in random directions."""
    generator = torch.Generator().manual_seed(seed)
    equal = torch.randn(1, 1, 1, generator=generator, dtype=torch.float64).expand(1, size, 1)
    return equal, equal + gap * torch.randn(1, size, 1, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(
    ("fn", "exclusive", "continuous"),
    [
        (push_apart, True, True),
        (sort_jacobian, True, True),
        (sort2_jacobian, False, False),
        (add_one_to_distinct_integers, False, False),
        (count_exact_duplicates, True, False),
    ],
)
@given(seed=seeds, size=sizes)
@few
def test_appendix_b_functions_get_their_known_verdicts(fn, exclusive, continuous, seed, size):
    report = check(fn, size=size, seed=seed)
    assert report.multiset_equivariant
    assert report.exclusive is exclusive
    assert continuity(fn, size=size, seed=seed).continuous is continuous


@given(seed=seeds, size=sizes)
@few
def test_proposition_set_equivariant_functions_keep_equal_elements_equal(seed, size):
    fn, X = deep_sets(seed), hard_sets(size, 1, seed=seed)
    out = fn(X)
    equal = (X[:, :, None] == X[:, None]).all(dim=-1)
    assert check(fn, X).set_equivariant
    assert torch.cdist(out, out)[equal].max() < 1e-6


@given(a=st.floats(-5, 5), b=st.floats(-5, 5))
@few
def test_push_apart_is_the_function_of_the_introduction(a, b):
    expected = [a - 1, b + 1] if a <= b else [a + 1, b - 1]
    assert push_apart(torch.tensor([[a], [b]], dtype=torch.float64)).flatten().tolist() == expected


@given(entries=small_integers)
@few
def test_push_apart_is_a_gradient_step_through_sorting(entries):
    X = torch.tensor(entries, dtype=torch.float64)[:, None].requires_grad_()
    g = X.sort(dim=0, stable=True).values[:, 0] @ torch.linspace(-1, 1, len(entries), dtype=torch.float64)
    (gradient,) = torch.autograd.grad(g, X)
    assert torch.equal(push_apart(X.detach()), X.detach() + gradient)


@given(entries=small_integers)
@few
def test_the_jacobian_of_sorting_is_the_transposed_permutation_that_autograd_finds(entries):
    X = torch.tensor(entries, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: x.sort(stable=True).values, X)
    assert torch.equal(sort_jacobian(X[:, None]), jacobian.T)
    assert torch.equal(jacobian @ X, X.sort().values)


@given(entries=small_integers, seed=seeds)
@few
def test_proposition_jacobian_of_sorting_is_multiset_equivariant_by_the_p2_of_the_proof(entries, seed):
    X = torch.tensor(entries, dtype=torch.float64)[:, None]
    P1 = torch.eye(len(X), dtype=X.dtype)[torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))]
    S_of_permuted, S = sort_jacobian(P1 @ X).T, sort_jacobian(X).T
    P2 = S_of_permuted.T @ S
    assert torch.equal(P2 @ X, P1 @ X)
    assert torch.equal(P2 @ S.T, S_of_permuted.T)


@given(seed=seeds, size=sizes)
@few
def test_proposition_jacobian_of_sorting_is_multiset_continuous_because_its_rows_never_change(seed, size):
    assert continuity(sort_jacobian, size=size, seed=seed).outputs.max() == 0


@given(seed=seeds, dim=st.integers(1, 3))
@few
def test_proposition_continuous_functions_are_multiset_continuous(seed, dim):
    fn = deep_sets(seed, dim)
    assert continuity(fn, dim=dim, seed=seed).continuous
    assert continuity(lambda X: X.cumsum(dim=1), dim=dim, seed=seed).continuous


@pytest.mark.parametrize("fn", [push_apart, sort_jacobian, count_exact_duplicates])
def test_proposition_exclusively_multiset_equivariant_functions_separate_some_equal_elements(fn):
    report = check(fn)
    witness = report.witness
    moved = witness.p1 != witness.p2
    assert report.exclusive
    assert torch.equal(witness.X[witness.p1[moved]], witness.X[witness.p2[moved]])
    out = fn(witness.X[None])[0]
    assert not torch.equal(out[witness.p1], out[witness.p2])


@pytest.mark.parametrize("fn", [push_apart, sort_jacobian])
@given(seed=seeds, size=sizes, gap=st.sampled_from([1e-3, 1e-6, 1e-9]))
@few
def test_similar_elements_stay_separated_by_continuous_exclusively_multiset_equivariant_functions(fn, seed, size, gap):
    equal, nearly = similar(size, seed, gap)
    assert separation(fn(equal)) >= 2 / size - 1e-6
    assert separation(fn(nearly)) >= 2 / size - 1e-6


@given(seed=seeds, size=sizes, gap=st.sampled_from([1e-3, 1e-6]))
@few
def test_similar_elements_stay_similar_under_continuous_set_equivariant_functions(seed, size, gap):
    equal, nearly = similar(size, seed, gap)
    fn = deep_sets(seed)
    assert torch.pdist(fn(equal)[0]).max() < 1e-12
    assert torch.pdist(fn(nearly)[0]).max() < 100 * gap


@given(seed=seeds, size=sizes)
@few
def test_discontinuity_leaves_similar_elements_without_a_guarantee(seed, size):
    equal, nearly = similar(size, seed, gap=1e-6)
    assert separation(sort2_jacobian(equal)) == 0
    assert separation(sort2_jacobian(nearly)) >= 1
    assert separation(add_one_to_distinct_integers(nearly)) < 1e-4
    assert separation(count_exact_duplicates(equal)) >= 1
    assert separation(count_exact_duplicates(nearly)) < 1e-4


def test_a_function_that_first_merges_elements_is_not_multiset_equivariant():
    """What separates the merged ones can only go by their position: steps between which elements become equal,
    as a projection may make them, lose the property that each step has."""
    assert check(torch.relu).set_equivariant
    assert check(push_apart).exclusive
    assert not check(lambda X: push_apart(X.relu())).multiset_equivariant
    assert check(lambda X: push_apart(X.tanh())).exclusive


@given(seed=seeds, size=sizes, dim=st.integers(2, 4))
@few
def test_with_several_channels_sorting_separates_equals_in_all_of_them_but_its_properties_need_scalars(seed, size, dim):
    """The propositions are about scalars; with vectors ties in one channel only are broken by position."""
    partly_equal = torch.zeros(size, dim)
    partly_equal[:, 1] = torch.arange(size)
    assert not check(sort_jacobian, partly_equal, seed=seed).multiset_equivariant
    assert not continuity(sort_jacobian, torch.zeros(64, size, dim), seed=seed).continuous
    generic = torch.randn(4, size, dim, generator=torch.Generator().manual_seed(seed))
    equal_or_generic = torch.cat([generic, generic[:, :1].expand_as(generic)])
    assert check(sort_jacobian, equal_or_generic, seed=seed).exclusive
    ranks = sort_jacobian(equal_or_generic).unflatten(-1, (dim, size))
    assert all(separation(ranks[:, :, channel]) >= 1 for channel in range(dim))

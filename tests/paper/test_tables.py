"""The equivariance columns of Tables 1 and 2, each with its noise convention."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from setpred.baselines import BiLSTM, DeepSets, Transformer
from setpred.equivariance import check, push_apart

few = settings(max_examples=5, deadline=None)
seeds = st.integers(0, 2**31)


def transformer(seed: int, pe: str = "none") -> Transformer:
    torch.manual_seed(seed)
    return Transformer(dim=3, out=4, pe=pe, width=16, heads=2, layers=1).double().eval()


@pytest.mark.parametrize(
    ("fn", "order_kept", "equals_separated"),
    [
        (lambda X: X - X.mean(dim=1, keepdim=True), True, False),
        (lambda X: X.cumsum(dim=1), False, True),
        (push_apart, True, True),
    ],
    ids=["set-equivariant", "neither", "exclusively multiset-equivariant"],
)
@given(a=st.floats(-3, 3), b=st.floats(-3, 3))
@few
def test_table_1_what_each_property_guarantees_and_allows(fn, order_kept, equals_separated, a, b):
    b = b if abs(a - b) > 0.1 else a + 1
    X = torch.tensor([[[a], [b]], [[b], [a]], [[1.0], [1.0]]], dtype=torch.float64)
    report = check(fn, size=2)
    ab, ba, aa = fn(X)
    assert report.multiset_equivariant is order_kept
    assert report.set_equivariant is (order_kept and not equals_separated)
    assert torch.allclose(ab, ba.flip(0)) is order_kept
    assert (not torch.allclose(aa[0], aa[1])) is equals_separated


@given(seed=seeds)
@few
def test_table_2_deepsets_is_set_equivariant(seed):
    torch.manual_seed(seed)
    assert check(DeepSets(dim=3, out=4, hidden=8).double(), dim=3, seed=seed).set_equivariant


@given(seed=seeds)
@few
def test_table_2_transformer_without_pe_is_set_equivariant(seed):
    assert check(transformer(seed), dim=3, seed=seed).set_equivariant


@given(seed=seeds)
@few
def test_table_2_transformer_with_pe_is_neither(seed):
    assert not check(transformer(seed, "sinusoidal"), dim=3, seed=seed).multiset_equivariant


@given(seed=seeds)
@few
def test_table_2_bilstm_is_neither(seed):
    torch.manual_seed(seed)
    model = BiLSTM(dim=3, out=4, hidden=8, width=8, layers=1).double()
    assert not check(model, dim=3, seed=seed).multiset_equivariant


@given(seed=seeds)
@few
def test_table_2_transformer_with_random_pe_is_neither_with_its_noise_fixed(seed):
    model = transformer(seed, "random")

    def fn(sets: Tensor, noise: Tensor) -> Tensor:
        return model(sets, noise=noise)

    verdict = {
        noise: check(fn, dim=3, noise_dim=model.noise_dim, noise=noise, seed=seed)
        for noise in ("fixed", "joint", "zero")
    }
    assert not verdict["fixed"].multiset_equivariant
    assert verdict["joint"].set_equivariant
    assert verdict["zero"].set_equivariant

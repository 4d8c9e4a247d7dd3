"""The equivariance columns of Tables 1 and 2, each with its noise convention."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import setpred as sp
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
    model = BiLSTM(dim=3, out=4, hidden=8, layers=1).double()
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


presets = pytest.mark.parametrize("preset", [sp.DSPN, sp.iDSPN])
pools = pytest.mark.parametrize("pool", ["fs", "sum", "mean"])


def decoder(preset: type[sp.SetDecoder], pool: str, seed: int, dim: int, **choices: object) -> sp.SetDecoder:
    torch.manual_seed(seed)
    encoder = sp.SetEncoder(dim=dim, hidden=16, latent=16, size=5, pool=pool)
    solver = sp.GradientDescent(steps=4) if preset is sp.DSPN else sp.Nesterov(steps=4, clip=10.0)
    return preset(encoder, size=5, dim=dim, solver=solver, **choices).double().eval()


def vectors(count: int) -> Tensor:
    return torch.randn(16, dtype=torch.float64).expand(count, -1)


@pools
@given(seed=seeds)
@few
def test_section_2_3_the_inner_gradient_has_the_equivariance_of_its_pooling(pool, seed):
    encoder = decoder(sp.iDSPN, pool, seed, dim=3).encoder
    z = vectors(1)

    def gradient(sets: Tensor) -> Tensor:
        sets.requires_grad_()
        return torch.autograd.grad((encoder(sets) - z).square().sum(), sets)[0]

    report = check(gradient, dim=3, seed=seed)
    assert report.multiset_equivariant
    assert report.exclusive is (pool == "fs")


@presets
@pools
@given(seed=seeds)
@few
def test_table_2_dspn_is_multiset_equivariant_to_its_initial_set_exclusively_so_with_fspool(preset, pool, seed):
    model = decoder(preset, pool, seed, dim=3)
    z = vectors(1)
    report = check(lambda start: model(z.expand(len(start), -1), init=start), dim=3, seed=seed)
    assert report.multiset_equivariant
    assert report.exclusive is (pool == "fs")


@presets
@pools
@given(seed=seeds)
@few
def test_table_2_dspn_for_numbering_keeps_its_label_with_the_noise_joint(preset, pool, seed):
    """The classes of the input are known entries of Y, the initial numbers are noise."""
    model = decoder(preset, pool, seed, dim=7, constraint=sp.PerSlice({(3, 7): sp.Simplex()}))
    read = sp.SetEncoder(dim=3, hidden=16, latent=16, size=5).double()
    classes = torch.eye(3, dtype=torch.float64)[torch.randint(3, (12, 5))]
    is_class = torch.arange(7) < 3

    def number(sets: Tensor, noise: Tensor) -> Tensor:
        start = torch.cat([sets, 0.1 * noise], dim=-1)
        return model(read(sets), known=(start, is_class), init=start)

    for noise in ("joint", "zero"):
        report = check(number, classes, noise_dim=4, noise=noise, seed=seed)
        assert report.multiset_equivariant
        assert report.exclusive is (pool == "fs")
    assert not check(number, classes, noise_dim=4, noise="fixed", seed=seed).multiset_equivariant


@presets
@pools
@given(seed=seeds)
@few
def test_only_sorting_leaves_an_initial_set_of_zeros(preset, pool, seed):
    model = decoder(preset, pool, seed, dim=3, init=sp.ZeroInit())
    (sets,) = model(vectors(1)).detach()
    apart = torch.pdist(sets)
    assert apart.min() > 1e-6 if pool == "fs" else apart.max() < 1e-12

"""Encoders: sets in, vectors out."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from setpred import FSPool, RelationEncoder, SetEncoder

every_encoder = pytest.mark.parametrize("encoder_class", [SetEncoder, RelationEncoder])
every_pool = pytest.mark.parametrize("pool", ["fs", "sum", "mean", "max"])


@every_encoder
@every_pool
def test_order_and_padding_do_not_matter(encoder_class, pool):
    encoder = encoder_class(dim=2, hidden=8, latent=6, size=5, pool=pool).double()
    x = torch.randn(3, 5, 2, dtype=torch.double)
    x[:, 1] = x[:, 3]
    mask = torch.tensor([[True] * 5, [True, True, False, True, False], [False] * 5])
    order = torch.randperm(5)
    torch.testing.assert_close(encoder(x[:, order]), encoder(x))
    torch.testing.assert_close(encoder(x[:, order], mask[:, order]), encoder(x, mask))
    nonsense = torch.where(mask[..., None], x, 1e6)
    torch.testing.assert_close(encoder(nonsense, mask), encoder(x, mask))


@every_encoder
def test_gradients(encoder_class):
    encoder = encoder_class(dim=2, hidden=4, latent=3, size=3).double()
    x = torch.randn(2, 3, 2, dtype=torch.double, requires_grad=True)
    assert gradcheck(lambda x, *p: encoder(x), (x, *encoder.parameters()))
    assert gradgradcheck(lambda x, *p: encoder(x), (x, *encoder.parameters()))


@every_encoder
@every_pool
def test_mixed_precision(encoder_class, pool):
    encoder, x = encoder_class(dim=2, hidden=8, latent=6, size=5, pool=pool), torch.randn(3, 5, 2, requires_grad=True)
    (plain,) = torch.autograd.grad(encoder(x).square().sum(), x)
    with torch.autocast("cpu", torch.bfloat16):
        encoding = encoder(x)
    (mixed,) = torch.autograd.grad(encoding.float().square().sum(), x)
    torch.testing.assert_close(encoding.float(), encoder(x), rtol=0.1, atol=0.1)
    torch.testing.assert_close(mixed, plain, rtol=0.2, atol=0.2)


def test_the_relation_encoder_is_a_set_encoder_of_all_ordered_pairs():
    encoder = RelationEncoder(dim=2, hidden=16, latent=8, size=3)
    x = torch.randn(4, 3, 2)
    pairs = torch.stack([torch.cat([x[:, i], x[:, j]], dim=-1) for i in range(3) for j in range(3)], dim=1)
    torch.testing.assert_close(encoder(x), encoder.pairs(pairs))


def test_a_module_can_be_the_pool():
    pool = FSPool(6, 5)
    assert SetEncoder(dim=2, hidden=8, latent=6, size=5, pool=pool).pool is pool


@pytest.mark.parametrize(
    ("sets", "mask", "message"),
    [
        (torch.zeros(3, 5), None, r"sets are \[3, 5\], this network takes \[batch, size, 2\]"),
        (torch.zeros(3, 5, 4), None, r"takes \[batch, size, 2\]"),
        (torch.zeros(3, 0, 2), None, "no place for an element"),
        (torch.zeros(3, 5, 2), torch.zeros(3, 4, dtype=torch.bool), r"mask is \[3, 4\]"),
        (torch.zeros(3, 5, 2), torch.zeros(3, 5), r"mask is \[3, 5\] torch.float32"),
    ],
)
@every_encoder
def test_wrong_shapes_are_named(encoder_class, sets, mask, message):
    with pytest.raises(ValueError, match=message):
        encoder_class(dim=2, hidden=8, latent=6, size=5)(sets, mask)


def test_an_unknown_pool_is_named():
    with pytest.raises(ValueError, match="unknown pool 'median': choose one of fs, sum, mean, max"):
        SetEncoder(dim=2, hidden=8, latent=6, size=5, pool="median")

"""Products in tiles are the products of torch, and equal rows give equal bits."""

import numpy as np
import pytest
import torch

import setpred as sp
from setpred.kernels.tiles import PANEL, multiply_rows, packed


def product(a, weights, bias=None, least=-np.inf, gate=None):
    """`[rows, k]` times `[k, width]`, by tiles."""
    rows, (k, width), panels = len(a), weights.shape, packed(weights)
    wide = len(panels) * PANEL
    biases, ones, out = torch.zeros(wide), torch.ones(wide), torch.full((rows, wide), np.nan)
    if bias is not None:
        biases[:width] = bias
    if gate is not None:  # the result may stand where the gate stood
        out[:] = 0.0
        out[:, :width] = gate
    gates = (ones.data_ptr(), 0) if gate is None else (out.data_ptr(), 4 * wide)
    factors = a.data_ptr(), 4 * a.stride(0), panels.data_ptr(), k, len(panels), biases.data_ptr(), np.float32(least)
    multiply_rows(*factors, *gates, out.data_ptr(), 4 * wide, rows)
    return out[:, :width]


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 5, 7, 8, 13, 31, 128])
@pytest.mark.parametrize(("k", "width"), [(1, 1), (2, 512), (19, 33), (512, 19), (300, 64)])
def test_is_the_product_of_torch(rows, k, width):
    a, b, bias, gate = torch.randn(rows, k), torch.randn(k, width), torch.randn(width), torch.randn(rows, width)
    torch.testing.assert_close(product(a, b), a @ b, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(product(a, b, bias, 0.0), (a @ b + bias).relu(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(product(a, b, gate=gate), (a @ b) * (gate > 0), rtol=1e-4, atol=1e-4)


def test_rows_may_lie_apart_and_a_nan_stays_in_its_row():
    a, b = torch.randn(9, 40)[:, 3:20], torch.randn(17, 40)
    a[4, 2] = np.nan
    found = product(a, b, least=0.0)
    assert found[4].isnan().all()
    well = [0, 1, 2, 3, 5, 6, 7, 8]
    torch.testing.assert_close(found[well], (a[well] @ b).relu(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("k", "width"), [(2, 512), (19, 512), (512, 512), (512, 19), (256, 68)])
def test_equal_rows_give_equal_bits_wherever_they_lie_and_however_many_there_are(k, width):
    row, b = torch.randn(1, k), torch.randn(k, width)
    alone = product(row, b)
    for rows in (2, 3, 7, 10, 64, 129):
        assert product(row.expand(rows, -1).contiguous(), b).eq(alone).all()


def test_a_prediction_has_the_same_bits_alone_in_a_batch_and_with_its_elements_in_another_order():
    encoder = sp.SetEncoder(dim=3, hidden=40, latent=24, size=6)
    decoder = sp.iDSPN(encoder, solver=sp.Nesterov(steps=15)).eval()
    z, init = torch.randn(9, 24), torch.randn(9, 6, 3)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    with torch.no_grad():
        together = decoder(z, init=init)
        assert torch.equal(decoder(z[4:5], init=init[4:5]), together[4:5])
        assert torch.equal(decoder(z, init=init[:, order]), together[:, order])

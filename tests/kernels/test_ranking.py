"""Sort pooling, its residual and the gradient, compiled or through `route`, are what autograd makes of a sort.

For features F `[batch, n, channels]`, rank weights w and a vector z:

    g = Σᵢ wᵢ · sort(F)ᵢ        L = ½ mean (g - z)²        ∂L/∂F = (g - z) / channels · w at each element's rank
"""

import itertools

import pytest
import torch
from torch.nn.functional import pad

from setpred.kernels import route
from setpred.kernels.ranking import odd_even_merge, sort_pool
from setpred.kernels.sorting import Scratch, padded_width


def routed(features, weight, z, mask=None):
    weights = route(features, weight, mask)
    present = features if mask is None else features.masked_fill(~mask.unsqueeze(-1), 0.0)
    residual = (present * weights).sum(dim=1) - z
    return 0.5 * residual.square().mean(dim=1), residual.unsqueeze(1) / features.shape[2] * weights


def compiled(features, weight, z, mask=None):
    batch, n, channels = features.shape
    width = padded_width(channels)
    grad, weight, z = (pad(x, (0, width - channels)).contiguous().clone() for x in (features, weight, z))
    mask = None if mask is None else mask.contiguous()
    scratch, bias, loss = Scratch(n), torch.zeros(width), torch.empty(batch)
    weights = weight.data_ptr(), 0 if len(weight) == 1 else 4 * n * width
    flags = 0 if mask is None else mask.data_ptr()
    outputs = z.data_ptr(), loss.data_ptr(), scratch.address
    sort_pool(grad.data_ptr(), bias.data_ptr(), flags, *weights, 1, *outputs, batch, n, width, channels)
    return loss, grad[..., :channels]


BACKENDS = [routed, compiled]
inf, nan = float("inf"), float("nan")


def plain(features, weight, z, mask=None):
    """One example at a time, with nothing but the elements that exist, differentiated by autograd."""
    features = features.clone().requires_grad_()
    losses = []
    for b, example in enumerate(features):
        kept = example if mask is None else example[mask[b]]
        ranked = kept.sort(dim=0, descending=True, stable=True).values
        pooled = (ranked * weight[b % len(weight), : len(ranked)]).sum(dim=0)
        losses.append(0.5 * (pooled - z[b]).square().mean())
    loss = torch.stack(losses)
    return loss.detach(), torch.autograd.grad(loss.sum(), features)[0]


def problem(batch, n, channels, seed=0, weights=1):
    g = torch.Generator().manual_seed(seed)
    shapes = (batch, n, channels), (weights, n, channels), (batch, channels)
    return [torch.randn(shape, generator=g) for shape in shapes]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(3, 5, 16), (1, 1, 1), (2, 2, 40), (4, 33, 7), (1, 200, 19), (5, 64, 32)])
def test_matches_autograd(backend, shape):
    args = problem(*shape)
    torch.testing.assert_close(backend(*args, None), plain(*args), rtol=1e-4, atol=1e-5)


def test_sets_of_every_size_are_sorted():
    for n in [*range(1, 70), 127, 128, 129, 256, 500, 1024, 2048]:
        args = problem(1, n, 16, seed=n)
        torch.testing.assert_close(compiled(*args, None), plain(*args), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("values", ["equal", "zeros of both signs", "integers"])
def test_equal_values_are_ranked_by_index(backend, values):
    _, weight, z = problem(3, 13, 20)
    g = torch.Generator().manual_seed(1)
    picks = {
        "equal": [0.7],
        "zeros of both signs": [0.0, -0.0],
        "integers": [-1.0, 0.0, 1.0, 2.0],
    }[values]
    features = torch.tensor(picks)[torch.randint(len(picks), (3, 13, 20), generator=g)]
    torch.testing.assert_close(backend(features, weight, z, None), plain(features, weight, z), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("weights", [1, 6])
def test_masked_elements_do_not_exist(backend, weights):
    features, weight, z = problem(6, 9, 18, weights=weights)
    mask = torch.rand(6, 9, generator=torch.Generator().manual_seed(2)) > 0.5
    mask[0], mask[1] = False, True
    features[2, 0], mask[2, :3] = -inf, torch.tensor([True, False, False])
    expected = plain(features, weight, z, mask)
    features = features.masked_fill(~mask.unsqueeze(-1), nan)
    loss, grad = backend(features, weight, z, mask)
    well = [0, 1, 3, 4, 5]  # example 2 pools an infinity
    torch.testing.assert_close((loss[well], grad[well]), (expected[0][well], expected[1][well]))
    assert grad[~mask].nan_to_num(0.0).abs().max() == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_not_finite_in_not_finite_out(backend):
    for bad in (nan, -nan, inf, -inf):
        features, weight, z = problem(2, 4, 17)
        features[0, 1, 3] = bad
        loss, grad = backend(features, weight, z, None)
        assert not loss[0].isfinite()
        assert loss[1].isfinite()
        assert grad[1].isfinite().all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_batch_and_strided_inputs(backend):
    loss, grad = backend(*problem(0, 4, 16), None)
    assert loss.shape == (0,)
    assert grad.shape == (0, 4, 16)
    features, weight, z = problem(4, 6, 16)
    twisted = features.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    mask = torch.tensor([True, False, True, True, True, False]).repeat(4, 2)[:, ::2]
    expected = backend(features, weight, z, mask.contiguous())
    torch.testing.assert_close(backend(twisted, weight[:, :, :], z.T.contiguous().T, mask), expected)
    torch.testing.assert_close(features, problem(4, 6, 16)[0])  # the input is not written to


def test_derivatives_of_loss_and_gradient():
    features, weight, z = (x.double().requires_grad_() for x in problem(2, 4, 3))
    mask = torch.tensor([[True, True, False, True], [True] * 4])
    for m in (None, mask):
        assert torch.autograd.gradcheck(lambda *args: routed(*args, m), (features, weight, z))  # noqa: B023
        assert torch.autograd.gradgradcheck(lambda *args: routed(*args, m), (features, weight, z))  # noqa: B023


def test_gradient_of_the_loss_is_the_gradient():
    features, weight, z = problem(3, 8, 20)
    features.requires_grad_()
    loss, grad = routed(features, weight[0], z)
    torch.testing.assert_close(torch.autograd.grad(loss.sum(), features)[0], grad)


def test_shapes_that_do_not_fit_are_refused():
    features, weight, z = problem(3, 4, 16)
    for bad in ((weight[:, :3], z, None), (weight, z[:2], None), (weight, z, torch.ones(3, 5, dtype=torch.bool))):
        with pytest.raises((ValueError, RuntimeError)):
            routed(features, *bad)


def test_the_network_sorts_every_input():
    for n in range(1, 11):  # the zero-one principle: sorting all of these is sorting everything
        for bits in itertools.product((0, 1), repeat=n):
            values = list(bits)
            for i, j in odd_even_merge(n):
                values[i], values[j] = min(values[i], values[j]), max(values[i], values[j])
            assert values == sorted(bits)

"""The graph-free gradient is autograd's, and it is not used where it would not be."""

import pytest
import torch
from torch import nn

from setpred import FSPool, SetEncoder
from setpred.kernels.fast_gradient import FastGradient, fast_gradient


def by_autograd(encoder, sets, z, mask=None):
    sets = sets.detach().clone().requires_grad_()
    loss = 0.5 * (encoder(sets, mask) - z).square().mean(dim=1)
    return loss.detach(), torch.autograd.grad(loss.sum(), sets)[0]


def problem(batch=5, n=7, dim=3, hidden=32, latent=16, pool="fs"):
    torch.manual_seed(0)
    encoder = SetEncoder(dim, hidden, latent, n, pool)
    return encoder, torch.randn(batch, n, dim), torch.randn(batch, latent)


@torch.no_grad()
def in_eighths(encoder, sets):
    """Make all sums of products exact in float32: no rounding decides which of two elements is the larger."""
    for parameter in encoder.net.parameters():
        parameter.copy_((8 * parameter.clamp(-2, 2)).round() / 8)
    return (8 * sets).round() / 8


@pytest.mark.parametrize("products", ["tiles", "torch"])
@pytest.mark.parametrize("pool", ["fs", "sum", "mean"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "sizes", [(5, 7, 3, 32, 16), (1, 1, 1, 1, 1), (130, 10, 19, 50, 30), (0, 4, 2, 16, 16), (3, 600, 2, 16, 16)]
)
def test_is_the_gradient_of_autograd(products, pool, masked, sizes, monkeypatch):
    monkeypatch.setenv("SETPRED_PRODUCTS", products)
    encoder, sets, z = problem(*sizes, pool=pool)
    sets = in_eighths(encoder, sets)
    mask = None
    if masked:
        mask = torch.rand(sizes[:2]) > 0.4
        mask[-1:] = False
    gradient = fast_gradient(encoder, z, mask)
    for scale in (1.0, 0.25):  # a second call reuses the buffers
        expected = by_autograd(encoder, scale * sets, z, mask)
        torch.testing.assert_close(gradient(scale * sets), expected, rtol=1e-3, atol=1e-5)


def test_equal_elements_are_told_apart_as_by_autograd():
    encoder, sets, z = problem()
    sets = sets[:, :1].expand(-1, 7, -1)
    torch.testing.assert_close(fast_gradient(encoder, z)(sets), by_autograd(encoder, sets, z))


def test_sets_of_another_size_than_the_knots():
    encoder, _, z = problem()
    for n in (3, 12):
        sets = torch.randn(5, n, 3)
        torch.testing.assert_close(fast_gradient(encoder, z)(sets), by_autograd(encoder, sets, z))


@pytest.mark.parametrize("pulled", [False, True])
@pytest.mark.parametrize("partly", [False, True])
def test_pull_to_the_start_and_entries_that_are_given(pulled, partly):
    encoder, sets, z = problem()
    start = torch.randn_like(sets) if pulled else None
    given = torch.rand_like(sets) < 0.3 if partly else None
    if partly:
        given[0] = True
    loss, grad = by_autograd(encoder, sets, z)
    free = torch.ones_like(sets) if given is None else (~given).float()
    if pulled:
        count = free.sum(dim=(1, 2), keepdim=True).clamp(min=1)
        loss = loss + 0.1 * 0.5 * ((sets - start).square() * free / count).sum(dim=(1, 2))
        grad = grad + 0.1 * (sets - start) / count
    gradient = fast_gradient(encoder, z, None, start, 0.1, given)
    torch.testing.assert_close(gradient(sets), (loss, grad * free))


@pytest.mark.parametrize("products", ["tiles", "torch"])
def test_blocks_of_examples_change_nothing(products, monkeypatch):
    monkeypatch.setenv("SETPRED_PRODUCTS", products)
    encoder, sets, z = problem(batch=9)
    expected = by_autograd(encoder, sets, z)
    for rows in (1, 14, 30, 1000):
        torch.testing.assert_close(FastGradient(encoder, z, rows=rows)(sets), expected)


def test_the_results_of_a_call_survive_the_next():
    encoder, sets, z = problem()
    gradient = fast_gradient(encoder, z)
    loss, grad = gradient(sets)
    kept = loss.clone(), grad.clone()
    gradient(2 * sets)
    torch.testing.assert_close((loss, grad), kept, rtol=0, atol=0)


def test_what_is_bound_holds_the_memory_it_works_on():
    encoder, sets, z = problem(batch=4, n=40, latent=64)
    expected = by_autograd(encoder, sets, z)
    loss, grad = torch.empty(4), torch.empty_like(sets)
    run = fast_gradient(encoder, z).part(slice(0, 4)).bind(sets, loss, grad)
    others = [torch.full((size,), -1.0) for size in range(2, 10_000, 7)]  # what was freed is overwritten
    run()
    torch.testing.assert_close((loss, grad), expected, rtol=1e-4, atol=1e-5)
    assert others


def test_sets_that_do_not_fit_are_refused():
    encoder, sets, z = problem()
    for bad in (sets[:2], sets[..., :2], sets.double(), sets[:, :0]):
        with pytest.raises(ValueError, match="this gradient takes"):
            fast_gradient(encoder, z)(bad)
    with pytest.raises(ValueError, match="mask"):
        fast_gradient(encoder, z, torch.ones(5, 6, dtype=torch.bool))(sets)


def test_a_diverged_example_leaves_the_others_alone():
    encoder, sets, z = problem()
    sets[1, 2, 0] = float("nan")
    loss, grad = fast_gradient(encoder, z)(sets)
    assert not loss[1].isfinite()
    well = [0, 2, 3, 4]
    expected = by_autograd(encoder, sets[well], z[well])
    torch.testing.assert_close((loss[well], grad[well]), expected)


class Doubled(SetEncoder):
    def forward(self, sets, mask=None):
        return super().forward(2 * sets, mask)


class Halved(FSPool):
    def forward(self, features, mask=None):
        return super().forward(features / 2, mask)


def subclass(encoder):
    return Doubled(3, 32, 16, 7)


def hook(encoder):
    encoder.net[1].register_forward_hook(lambda module, inputs, output: 2 * output)
    return encoder


def backward_hook(encoder):
    encoder.pool.register_full_backward_hook(lambda module, grad_in, grad_out: (2 * grad_in[0],))
    return encoder


def own_forward(encoder):
    encoder.net[0].forward = lambda x: torch.zeros(*x.shape[:-1], 32)
    return encoder


def parametrized(encoder):
    nn.utils.parametrizations.weight_norm(encoder.net[2])
    return encoder


def other_activation(encoder):
    encoder.net[1] = nn.GELU()
    return encoder


def more_layers(encoder):
    encoder.net.append(nn.Dropout(0.5))
    return encoder


def other_pool(encoder):
    encoder.pool = Halved(16, 7)
    return encoder


def max_pool(encoder):
    return SetEncoder(3, 32, 16, 7, "max")


def no_bias(encoder):
    encoder.net[0] = nn.Linear(3, 32, bias=False)
    return encoder


def other_dtype(encoder):
    return encoder.double()


def other_device(encoder):
    return encoder.to("meta")


ALTERATIONS = [
    subclass, hook, backward_hook, own_forward, parametrized, other_activation, more_layers, other_pool, max_pool,
    no_bias, other_dtype, other_device,
]  # fmt: skip


@pytest.mark.parametrize("alter", ALTERATIONS)
def test_steps_aside(alter):
    encoder, _, z = problem()
    assert fast_gradient(encoder, z) is not None
    assert fast_gradient(alter(encoder), z) is None


def test_steps_aside_for_global_hooks():
    encoder, _, z = problem()
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: None)
    try:
        assert fast_gradient(encoder, z) is None
    finally:
        handle.remove()
    assert fast_gradient(encoder, z) is not None


def test_steps_aside_for_transforms_and_tracing():
    encoder, _, z = problem()
    used = []

    def encode(z):
        used.append(fast_gradient(encoder, z) is not None)
        return 2 * z

    torch.func.vmap(encode)(z.unsqueeze(0))
    torch.func.grad(lambda z: encode(z).sum())(z)
    with torch.autograd.forward_ad.dual_level():
        encode(z)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        encode(z)
    torch.compile(encode, backend="eager")(z)
    assert used == [False] * len(used)
    assert len(used) >= 5

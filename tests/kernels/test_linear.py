"""Layers multiplied by oneDNN are those of torch, with derivatives of any order, and step aside for all others."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import setpred as sp
from setpred.kernels import linear, products
from setpred.kernels.linear import multiply, through, weights_held_fixed
from setpred.objective import Objective


@pytest.fixture
def calls(monkeypatch):
    """The shapes that oneDNN multiplies, where it is always taken for the faster library."""
    made, real = [], linear._by_onednn
    monkeypatch.delenv(products.VARIABLE, raising=False)
    monkeypatch.setattr(linear, "WORTH_IT", 0)
    monkeypatch.setattr(linear, "choice", lambda name, measure: "oneDNN")
    monkeypatch.setattr(linear, "_by_onednn", lambda a, b: made.append((a.shape, b.shape)) or real(a, b))
    return made


def net(hidden=24):
    return nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, 10))


def stored_otherwise(matrix, how):
    if how == "by columns":
        return matrix.T.contiguous().T
    return matrix[:, :1].expand_as(matrix) if how == "one column again and again" else matrix


@pytest.mark.parametrize("how", ["by rows", "by columns", "one column again and again"])
@pytest.mark.parametrize(("rows", "k", "width"), [(1, 1, 1), (5, 1, 4), (2, 3, 1), (7, 8, 512), (33, 17, 5)])
def test_is_the_product_of_torch(rows, k, width, how):
    a, b = stored_otherwise(torch.randn(rows, k), how), stored_otherwise(torch.randn(k, width), how)
    torch.testing.assert_close(multiply(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_derivatives_of_derivatives_are_those_of_torch(calls):
    layers, rows = net(), torch.randn(4, 5, 3, requires_grad=True)
    wanted = [rows, *layers.parameters()]

    def derivatives(way):
        y = way(rows)
        (first,) = torch.autograd.grad(y.square().sum(), rows, create_graph=True)
        return y, first, *torch.autograd.grad(first.square().sum(), wanted)

    found = derivatives(lambda rows: through(layers, rows))
    assert calls
    torch.testing.assert_close(found, derivatives(layers), rtol=1e-3, atol=1e-3)


def test_a_training_step_has_the_gradients_that_it_has_with_torch(calls, monkeypatch):
    encoder, z = sp.SetEncoder(dim=3, hidden=24, latent=16, size=5), torch.randn(6, 16, requires_grad=True)
    decoder, start = sp.iDSPN(encoder, solver=sp.Nesterov(steps=3)), torch.randn(6, 5, 3)

    def gradients():
        return torch.autograd.grad(decoder(z, init=start).square().sum(), [z, *encoder.parameters()])

    found = gradients()
    assert calls
    monkeypatch.setenv(products.VARIABLE, "torch")
    calls.clear()
    torch.testing.assert_close(found, gradients(), rtol=1e-3, atol=1e-4)
    assert not calls, "SETPRED_PRODUCTS=torch asks for torch"


def test_the_inner_gradient_makes_no_gradients_of_weights(calls):
    encoder = sp.SetEncoder(dim=3, hidden=24, latent=16, size=5)
    _, grad = Objective(encoder, torch.zeros(4, 16)).gradient(torch.randn(4, 5, 3, requires_grad=True), graph=True)
    assert len(calls) == 4, "two layers forwards and two backwards"
    calls.clear()
    grad.square().sum().backward()
    assert len(calls) >= 6, "what comes back through both ways reaches the weights"
    assert all(parameter.grad is not None for parameter in encoder.net[::2].parameters() if parameter.ndim == 2)


def test_weights_are_held_fixed_in_this_block_only():
    a, b = torch.randn(2, 3, requires_grad=True), torch.randn(3, 2, requires_grad=True)
    with weights_held_fixed():
        assert torch.autograd.grad(multiply(a, b).sum(), b, allow_unused=True) == (None,)
    (grad,) = torch.autograd.grad(multiply(a, b).sum(), b)
    torch.testing.assert_close(grad, a.sum(0)[:, None].expand(3, 2))


class Doubled(nn.Linear):
    def forward(self, rows):
        return 2 * super().forward(rows)


def hooked(layers):
    layers[0].register_forward_hook(lambda module, inputs, output: output + 1)
    return layers


def replaced(layers):
    layers[1].forward = torch.tanh
    return layers


def parametrised(layers):
    nn.utils.parametrizations.weight_norm(layers[0])
    return layers


def computed(layers):
    weight = layers[0].weight * 2
    del layers[0].weight
    layers[0].weight = weight
    return layers


OTHERS = {
    "another layer": lambda: nn.Sequential(Doubled(3, 8), nn.ReLU(), nn.Linear(8, 2)),
    "another activation": lambda: nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 2)),
    "no bias": lambda: nn.Sequential(nn.Linear(3, 8, bias=False), nn.ReLU(), nn.Linear(8, 2)),
    "a hook": lambda: hooked(net()),
    "a replaced forward": lambda: replaced(net()),
    "a parametrisation": lambda: parametrised(net()),
    "weights that were computed": lambda: computed(net()),
    "another type": lambda: net().double(),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_steps_aside_for_networks_that_do_more(kind, calls):
    layers = OTHERS[kind]()
    rows = torch.randn(4, 3, dtype=layers[-1].bias.dtype)
    assert torch.equal(through(layers, rows), layers(rows))
    assert not calls


def test_steps_aside_where_something_else_decides_how_to_multiply(calls):
    layers, rows = net(), torch.randn(4, 3)
    with torch.autocast("cpu"):
        assert through(layers, rows).dtype == torch.bfloat16
    with FlopCounterMode(display=False) as counter:
        through(layers, rows)
    assert counter.get_total_flops() == 2 * 4 * (3 * 24 + 24 * 10)
    torch.func.vmap(lambda row: through(layers, row))(rows[:, None])
    torch.testing.assert_close(torch.compile(lambda rows: through(layers, rows), backend="eager")(rows), layers(rows))
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: None)
    try:
        through(layers, rows)
    finally:
        handle.remove()
    assert not calls


def test_small_products_and_empty_batches_are_torchs(calls, monkeypatch):
    layers = net()
    assert through(layers, torch.randn(0, 3)).shape == (0, 10)
    monkeypatch.setattr(linear, "WORTH_IT", 10**6)
    through(layers, torch.randn(4, 3))
    assert not calls
    through(layers, torch.randn(10**4, 3))
    assert calls


def test_the_library_is_measured_once(monkeypatch, tmp_path):
    monkeypatch.setattr(products, "_CHOSEN", {})
    monkeypatch.setattr(products, "machine_code_folder", lambda sources: tmp_path)
    monkeypatch.delenv(products.VARIABLE, raising=False)
    layers = net()
    chosen = linear._onednn_is_faster(layers)
    monkeypatch.setattr(linear, "_measured", lambda net: "torch" if chosen else "oneDNN")
    products._CHOSEN.clear()
    assert linear._onednn_is_faster(layers) is chosen
    assert [file.name.split("-")[0] for file in tmp_path.iterdir()] == ["linear"]

"""Layers are those of the network, and the way to multiply is measured once, for all processes of a machine."""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import setpred as sp
from setpred.errors import UsageError
from setpred.kernels import products
from setpred.kernels.products import TiledLayers, TorchLayers, tiled

SAY = """
import setpred as sp
from setpred.kernels.products import layers_of
print(type(layers_of(sp.SetEncoder(dim=3, hidden=24, latent=20, size=5).net)).__name__)
"""


@pytest.fixture
def net():
    return sp.SetEncoder(dim=3, hidden=24, latent=20, size=5).net


@pytest.fixture
def forgetful(monkeypatch):
    """Nothing is remembered from before, and nothing is asked for."""
    monkeypatch.setattr(products, "_CHOSEN", {})
    monkeypatch.delenv(products.VARIABLE, raising=False)


@pytest.mark.parametrize(("asked", "kind"), [("tiles", TiledLayers), ("torch", TorchLayers)])
def test_the_variable_overrides_the_measurement(net, asked, kind, monkeypatch):
    monkeypatch.setenv(products.VARIABLE, asked)
    assert type(products.layers_of(net)) is kind


def test_an_unknown_way_is_refused_in_one_line(net, monkeypatch):
    monkeypatch.setenv(products.VARIABLE, "cublas")
    with pytest.raises(UsageError, match="SETPRED_PRODUCTS=cublas: choose one of tiles, torch"):
        products.layers_of(net)


@pytest.mark.usefixtures("forgetful")
def test_what_was_chosen_first_is_chosen_by_all_later_processes(net, tmp_path, monkeypatch):
    monkeypatch.setattr(products, "machine_code_folder", lambda sources: tmp_path)
    monkeypatch.setattr(products, "measured", lambda net: "torch")
    assert type(products.layers_of(net)) is TorchLayers
    (file,) = tmp_path.iterdir()
    assert file.read_text() == "torch"
    products._CHOSEN.clear()
    monkeypatch.setattr(products, "measured", lambda net: "tiles")
    assert type(products.layers_of(net)) is TorchLayers


@pytest.mark.usefixtures("forgetful")
def test_of_two_processes_that_measure_at_a_time_the_first_to_write_is_right(net, tmp_path, monkeypatch):
    monkeypatch.setattr(products, "machine_code_folder", lambda sources: tmp_path)

    def another_is_faster(net):
        (tmp_path / products.name_of(net)).write_text("torch")
        return "tiles"

    monkeypatch.setattr(products, "measured", another_is_faster)
    assert type(products.layers_of(net)) is TorchLayers


@pytest.mark.usefixtures("forgetful")
def test_where_nothing_can_be_kept_it_is_measured_in_every_process(net, monkeypatch):
    monkeypatch.setattr(products, "machine_code_folder", lambda sources: None)
    assert isinstance(products.layers_of(net), TiledLayers | TorchLayers)


def test_a_new_process_chooses_alike(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment.pop(products.VARIABLE, None)
    said = [
        subprocess.run([sys.executable, "-c", SAY], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said[0] == said[1]
    assert [file.read_text() for file in tmp_path.rglob("products-*")] == ["tiles" if "Tiled" in said[0] else "torch"]


def test_a_choice_belongs_to_a_precision(net):
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        exact = products.name_of(net)
        torch.set_float32_matmul_precision("medium")
        assert products.name_of(net) != exact
    finally:
        torch.set_float32_matmul_precision(before)


def test_weights_that_were_changed_behind_the_back_of_autograd_are_packed_again():
    net = nn.Sequential(nn.Linear(3, 20), nn.ReLU(), nn.Linear(20, 10))
    before = tiled(net)
    assert tiled(net) is before
    net[2].weight.data[4, 5] += 1.0
    after = tiled(net)
    assert after is not before
    assert not torch.equal(after.w2, before.w2)


@pytest.mark.parametrize("make", [TiledLayers, TorchLayers])
def test_layers_are_those_of_the_network_forwards_and_backwards(make):
    net = nn.Sequential(nn.Linear(5, 40), nn.ReLU(), nn.Linear(40, 24))
    layers, y = make(net), torch.randn(11, 5)
    hidden, features, dy = torch.empty(11, layers.hidden), torch.empty(11, layers.latent), torch.empty(11, 5)
    forward, backward = layers.bind(y, hidden, features, dy)
    forward()
    expected = net(y.requires_grad_())
    torch.testing.assert_close(features[:, :24] + net[2].bias, expected, rtol=1e-4, atol=1e-5)
    gradient = torch.randn(11, 24)
    features[:, :24], features[:, 24:] = gradient, 0.0
    backward()
    torch.testing.assert_close(dy, torch.autograd.grad(expected, y, gradient)[0], rtol=1e-4, atol=1e-5)

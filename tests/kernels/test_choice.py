"""The way to multiply is measured once and then stays, for all processes of a machine."""

import os
import subprocess
import sys

import pytest
import torch

import setpred as sp
from setpred.errors import UsageError
from setpred.kernels import choice
from setpred.kernels.layers import TiledLayers, TorchLayers

SAY = """
import setpred as sp
from setpred.kernels.choice import layers_of
print(type(layers_of(sp.SetEncoder(dim=3, hidden=24, latent=20, size=5).net)).__name__)
"""


@pytest.fixture
def net():
    return sp.SetEncoder(dim=3, hidden=24, latent=20, size=5).net


@pytest.fixture
def forgetful(monkeypatch):
    """Nothing is remembered from before, and nothing is asked for."""
    monkeypatch.setattr(choice, "_CHOSEN", {})
    monkeypatch.delenv(choice.VARIABLE, raising=False)


@pytest.mark.parametrize(("asked", "kind"), [("tiles", TiledLayers), ("torch", TorchLayers)])
def test_the_variable_overrides_the_measurement(net, asked, kind, monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, asked)
    assert type(choice.layers_of(net)) is kind


def test_an_unknown_way_is_refused_in_one_line(net, monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, "cublas")
    with pytest.raises(UsageError, match="SETPRED_PRODUCTS=cublas: choose one of tiles, torch"):
        choice.layers_of(net)


@pytest.mark.usefixtures("forgetful")
def test_what_was_chosen_first_is_chosen_by_all_later_processes(net, tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "machine_code_folder", lambda sources: tmp_path)
    monkeypatch.setattr(choice, "measured", lambda net: "torch")
    assert type(choice.layers_of(net)) is TorchLayers
    (file,) = tmp_path.iterdir()
    assert file.read_text() == "torch"
    choice._CHOSEN.clear()
    monkeypatch.setattr(choice, "measured", lambda net: "tiles")
    assert type(choice.layers_of(net)) is TorchLayers


@pytest.mark.usefixtures("forgetful")
def test_of_two_processes_that_measure_at_a_time_the_first_to_write_is_right(net, tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "machine_code_folder", lambda sources: tmp_path)

    def another_is_faster(net):
        (tmp_path / choice._name(net)).write_text("torch")
        return "tiles"

    monkeypatch.setattr(choice, "measured", another_is_faster)
    assert type(choice.layers_of(net)) is TorchLayers


@pytest.mark.usefixtures("forgetful")
def test_where_nothing_can_be_kept_it_is_measured_in_every_process(net, monkeypatch):
    monkeypatch.setattr(choice, "machine_code_folder", lambda sources: None)
    assert isinstance(choice.layers_of(net), TiledLayers | TorchLayers)


def test_a_new_process_chooses_alike(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment.pop(choice.VARIABLE, None)
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
        exact = choice._name(net)
        torch.set_float32_matmul_precision("medium")
        assert choice._name(net) != exact
    finally:
        torch.set_float32_matmul_precision(before)

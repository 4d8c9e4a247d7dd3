"""A saved model is the same model, needs nothing to load, and nothing else passes for one."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import setpred as sp
from setpred.baselines import SlotAttention, SlotMLP
from setpred.data.clevr import CLEVR_SCHEMA
from setpred.errors import UsageError
from setpred.pretrained import FORMAT

SCHEMA = sp.Schema({"at": sp.Real(2, range=(0, 10)), "kind": sp.Category("cat", 3), "turn": sp.Angle(90.0)}, size=3)
SIZE, DIM = SCHEMA.size, SCHEMA.dim
DECODERS = {
    "idspn": lambda encoder: sp.iDSPN(encoder, SIZE, DIM),
    "dspn": lambda encoder: sp.DSPN(encoder, SIZE, DIM),
    "momentum": lambda encoder: sp.iDSPN(encoder, SIZE, DIM, solver=sp.Nesterov(5, eval_steps=7, clip=2.0, tol=1e-3)),
    "adam": lambda encoder: sp.iDSPN(
        encoder, SIZE, DIM, solver=sp.TorchOptimizer(torch.optim.Adam, steps=4, lr=0.1, betas=(0.5, 0.9))
    ),
    "learned": lambda encoder: sp.iDSPN(encoder, SIZE, DIM, init=sp.LearnedInit(std=0.3, weight=0.2)),
    "guessed": lambda encoder: sp.iDSPN(encoder, SIZE, DIM, init=sp.GuessedInit(latent=8)),
    "zero": lambda encoder: sp.iDSPN(encoder, SIZE, DIM, init=sp.ZeroInit(), adjoint=sp.ConjugateGradient(3, 9.0)),
    "fields": lambda encoder: sp.iDSPN(
        encoder, SIZE, DIM, constraint=sp.PerSlice({(0, 2): sp.Box(-1, float("inf")), (2, 4): sp.Simplex(2.0)})
    ),
    "sphere": lambda encoder: sp.iDSPN(encoder, SIZE, DIM, constraint=sp.Sphere(2.0)),
}


def predictor(decoder="idspn", pool="fs"):
    return sp.SetPredictor(
        sp.VectorEncoder(4, 16, 8), DECODERS[decoder](sp.SetEncoder(DIM, 16, 8, SIZE, pool)), SCHEMA
    ).eval()


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_predicts_after_loading_what_it_did_before(name, tmp_path):
    decoder, z = DECODERS[name](sp.SetEncoder(DIM, 16, 8, SIZE)).eval(), torch.randn(4, 8)
    loaded = sp.SetDecoder.from_pretrained(decoder.save_pretrained(tmp_path))
    assert type(loaded) is type(decoder)
    assert not loaded.training
    assert repr(loaded.adjoint) == repr(decoder.adjoint)
    assert torch.equal(loaded(z), decoder(z))


@pytest.mark.parametrize(
    ("encoder", "inputs"),
    [
        (lambda: sp.SetEncoder(2, 16, 8, size=5, pool="max"), torch.rand(2, 5, 2)),
        (lambda: sp.SetEncoder(2, 16, 8, size=5, pool=sp.FSPool(8, size=3)), torch.rand(2, 5, 2)),
        (lambda: sp.RelationEncoder(2, 16, 8, size=5, pool="mean"), torch.rand(2, 5, 2)),
        (lambda: sp.ImageEncoder(latent=8, size=64), torch.rand(2, 3, 64, 64)),
        (lambda: sp.VectorEncoder(4, 16, 8), torch.rand(2, 4)),
    ],
)
def test_an_encoder_gives_after_loading_what_it_did_before(encoder, inputs, tmp_path):
    encoder = encoder()
    if isinstance(encoder, sp.ImageEncoder):
        encoder(torch.rand(4, 3, 64, 64))  # moves the running means, which are to be kept
        encoder.mean.fill_(0.5)
    encoder.eval().save_pretrained(tmp_path)
    assert torch.equal(type(encoder).from_pretrained(str(tmp_path))(inputs), encoder(inputs))


def test_a_predictor_brings_its_schema(tmp_path):
    model, vectors = predictor(), torch.randn(2, 4)
    loaded = sp.SetPredictor.from_pretrained(model.save_pretrained(tmp_path / "new" / "folder"))
    assert loaded.schema == SCHEMA
    assert loaded.predict(vectors, threshold=-9.0) == model.predict(vectors, threshold=-9.0)


@pytest.mark.parametrize("encoder", [SlotAttention(width=8, hidden=12, iterations=2), SlotMLP(16, width=8, hidden=12)])
def test_slot_models_are_predictors_that_can_be_saved(encoder, tmp_path):
    model, images = sp.SetPredictor(encoder, None, CLEVR_SCHEMA).eval(), torch.rand(1, 3, 16, 16)
    loaded = sp.SetPredictor.from_pretrained(model.save_pretrained(tmp_path))
    assert torch.equal(loaded(images), model(images))


def test_a_type_and_a_stored_order_survive(tmp_path):
    model = predictor().double()
    loaded = sp.SetPredictor.from_pretrained(model.save_pretrained(tmp_path))
    assert {p.dtype for p in loaded.parameters()} == {torch.float64}
    images = sp.ImageEncoder(latent=8, size=64).to(memory_format=torch.channels_last).eval()
    assert sp.ImageEncoder.from_pretrained(images.save_pretrained(tmp_path)).project.weight.is_contiguous()


def test_a_loaded_model_can_be_trained_on(tmp_path):
    model = sp.SetPredictor.from_pretrained(predictor("learned").save_pretrained(tmp_path)).train()
    model(torch.randn(2, 4)).sum().backward()
    assert all(p.requires_grad and p.grad is not None for p in model.parameters())


def test_loading_leaves_random_numbers_alone(tmp_path):
    predictor().save_pretrained(tmp_path)
    before = torch.get_rng_state()
    sp.SetPredictor.from_pretrained(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


class Mine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(DIM, 8)

    def forward(self, sets):
        return self.net(sets).sum(dim=1) if sets.ndim == 3 else self.net(sets)


def test_an_encoder_of_one_s_own_is_passed_again_and_gets_its_weights(tmp_path):
    model = sp.SetPredictor(Mine(), DECODERS["idspn"](sp.SetEncoder(DIM, 16, 8, SIZE)), SCHEMA).eval()
    model.save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"encoder is Mine, a class of your own: build it .* pass it as encoder= to"):
        sp.SetPredictor.from_pretrained(tmp_path)
    vectors = torch.randn(2, DIM)
    assert torch.equal(sp.SetPredictor.from_pretrained(tmp_path, encoder=Mine())(vectors), model(vectors))
    with pytest.raises(UsageError, match="unknown part of SetPredictor 'deco': did you mean decoder"):
        sp.SetPredictor.from_pretrained(tmp_path, deco=Mine())

    sp.SetPredictor(Mine(), sp.iDSPN(Mine(), SIZE, DIM), SCHEMA).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"decoder.encoder is Mine, .* pass it as decoder= to from_pretrained"):
        sp.SetPredictor.from_pretrained(tmp_path, encoder=Mine())


def test_a_function_cannot_be_saved(tmp_path):
    decoder = sp.iDSPN(sp.SetEncoder(DIM, 16, 8, SIZE), SIZE, DIM, solver=sp.Nesterov(lr=lambda t: 1 / (1 + t)))
    with pytest.raises(UsageError, match=r"solver.lr is a function, which cannot be saved: use a number"):
        decoder.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_run_folder_is_not_overwritten(tmp_path):
    (tmp_path / "config.yaml").write_text("task: clevr")
    with pytest.raises(UsageError, match="is a run folder"):
        predictor().save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"holds no model.safetensors: the run has not finished"):
        sp.SetPredictor.from_pretrained(tmp_path)


def changed(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def newer(config):
    config["format"] = FORMAT + 1


def other_class(config):
    config["model"]["encoder"]["class"] = "Popen"


def not_an_optimiser(config):
    config["model"]["decoder"]["solver"]["optimizer"] = {"class": "torch.optim", "name": "lr_scheduler"}


def other_argument(config):
    config["model"]["decoder"]["solver"]["steps"] = "many"


def other_schema(config):
    config["model"]["schema"]["fields"]["at"]["dim"] = 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (newer, f"format {FORMAT + 1} of setpred .*: upgrade it"),
        (lambda config: config.pop("format"), "was not written by setpred"),
        (lambda config: config.update(model="SetPredictor"), "was not written by setpred"),
        (other_class, "encoder is of the class 'Popen', which setpred does not have"),
        (not_an_optimiser, "decoder.solver.optimizer cannot be built"),
        (other_argument, "decoder.solver.steps is 'many': it must be a whole number"),
        (other_schema, r"the model cannot be built: the decoder makes sets of \[3, 7\]"),
        (lambda config: config["model"]["encoder"].pop("dim"), "encoder cannot be built: .*'dim'"),
        (lambda config: config["model"]["encoder"].update(hidden=7), "does not fit config.json .*size mismatch"),
    ],
)
def test_a_configuration_that_is_not_right_is_refused_in_a_sentence(change, message, tmp_path):
    predictor("adam").save_pretrained(tmp_path)
    changed(tmp_path, change)
    with pytest.raises(UsageError, match=message) as refused:
        sp.SetPredictor.from_pretrained(tmp_path)
    assert "\n" not in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_damaged_and_foreign_files_are_refused_in_a_sentence(tmp_path):
    model = predictor()
    config, weights = (model.save_pretrained(tmp_path) / name for name in ("config.json", "model.safetensors"))

    def refusal():
        with pytest.raises(UsageError) as refused:
            sp.SetPredictor.from_pretrained(tmp_path)
        assert "\n" not in str(refused.value)
        return str(refused.value)

    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert "model.safetensors is damaged" in refusal()
    torch.save(model.state_dict(), weights)
    assert "model.safetensors is damaged" in refusal()
    save_file({name: value for name, value in load_file_of(whole, tmp_path).items() if "pool" not in name}, weights)
    assert "does not fit config.json" in refusal()
    weights.unlink()
    assert "model.safetensors is missing" in refusal()
    text = config.read_text()
    for damage in (text[:50], "\x00\xff", "[" * 100_000):
        config.write_text(damage)
        assert "config.json is damaged" in refusal()
    config.write_text('{"model_type": "bert"}')
    assert "was not written by setpred" in refusal()
    config.unlink()
    assert "holds no config.json" in refusal()


def load_file_of(content, folder):
    (folder / "whole").write_bytes(content)
    return load_file(folder / "whole")


def test_the_class_that_loads_must_be_that_of_the_model(tmp_path):
    predictor().save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"holds a SetPredictor: load it with SetPredictor.from_pretrained"):
        sp.SetEncoder.from_pretrained(tmp_path)


def test_a_name_is_looked_up_on_the_hub(tmp_path, monkeypatch):
    import huggingface_hub

    pushed = {}
    monkeypatch.setattr(huggingface_hub, "create_repo", lambda name, **options: f"https://hub/{name}")
    monkeypatch.setattr(
        huggingface_hub,
        "upload_folder",
        lambda repo_id, folder_path: pushed.update({repo_id: (tmp_path / "hub", _copy(folder_path, tmp_path / "hub"))}),
    )
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **options: pushed[name][0])
    model, vectors = predictor(), torch.randn(2, 4)
    assert model.push_to_hub("someone/cats") == "https://hub/someone/cats"
    assert {path.name for path in (tmp_path / "hub").iterdir()} == {"config.json", "model.safetensors", "README.md"}
    assert torch.equal(sp.SetPredictor.from_pretrained("someone/cats")(vectors), model(vectors))
    with pytest.raises(UsageError, match="there is no folder someone/dogs, and the hub says"):
        sp.SetPredictor.from_pretrained("someone/dogs")
    with pytest.raises(UsageError, match="there is no folder no-such-folder"):
        sp.SetPredictor.from_pretrained("no-such-folder")


@pytest.mark.parametrize("name", ["runs/none", "mine/none"])
def test_a_folder_that_is_missing_here_is_not_looked_for_on_the_hub(tmp_path, monkeypatch, name):
    import huggingface_hub

    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("the hub was asked"))
    with pytest.raises(UsageError, match=f"there is no folder {name}: name a run folder"):
        sp.SetPredictor.from_pretrained(name)


def _copy(source, target):
    import shutil

    return shutil.copytree(source, target)


LIGHT = """
import sys, torch
import setpred as sp
model = sp.SetPredictor.from_pretrained(sys.argv[1])
model.predict(torch.zeros(1, 4))
print(*sys.modules)
"""


def test_loading_and_predicting_need_no_training_stack(tmp_path):
    predictor().save_pretrained(tmp_path)
    result = subprocess.run([sys.executable, "-c", LIGHT, tmp_path], capture_output=True, text=True, check=True)
    modules = set(result.stdout.split())
    assert "safetensors" in modules
    assert not modules & {"lightning", "torchmetrics", "omegaconf", "typer", "huggingface_hub", "matplotlib"}


@pytest.mark.parametrize("name", ["Adagrad", "Adamax", "NAdam", "RAdam", "ASGD"])
def test_optimisers_that_count_their_steps_in_tensors_survive(name, tmp_path):
    solver = sp.TorchOptimizer(getattr(torch.optim, name), steps=4, lr=0.05)
    decoder = sp.SetDecoder(sp.SetEncoder(2, 8, 8, 3), 3, 2, solver=solver).eval()
    z = torch.randn(2, 8)
    assert torch.equal(sp.SetDecoder.from_pretrained(decoder.save_pretrained(tmp_path))(z), decoder(z))


def test_a_layer_that_was_replaced_is_not_saved_as_the_one_before(tmp_path):
    encoder = sp.SetEncoder(2, 8, 8, 3)
    encoder.net[1] = nn.GELU()
    with pytest.raises(UsageError, match="is GELU where the model is built with ReLU"):
        encoder.save_pretrained(tmp_path)
    assert not list(tmp_path.iterdir())


def test_two_parts_may_be_one(tmp_path):
    encoder = sp.SetEncoder(2, 8, 8, 3)
    schema = sp.Schema({"at": sp.Real(2, scale=torch.tensor(2.0), weight=np.float32(0.5))}, size=3, presence=False)
    tied = sp.SetPredictor(encoder, sp.iDSPN(encoder, size=3, dim=2), schema).eval()
    sets = torch.randn(4, 3, 2)
    assert torch.equal(sp.SetPredictor.from_pretrained(tied.save_pretrained(tmp_path))(sets), tied(sets))

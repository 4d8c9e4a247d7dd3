"""An exported model computes what the library does, and needs nothing of it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import setpred as sp
from setpred.baselines import SlotMLP
from setpred.data.clevr import CLEVR_SCHEMA
from setpred.errors import UsageError
from setpred.export.formats import export_trained

EXAMPLE = Path(__file__).parents[2] / "examples" / "run_onnx.py"
SCHEMA = sp.Schema(
    {
        "at": sp.Real(2, range=(0, 10)),
        "weight": sp.Real(scale=3),
        "kind": sp.Category("cat", "dog"),
        "turn": sp.Angle(90.0),
        "legs": sp.Count(8),
        "fast": sp.Flag(),
    },
    size=4,
)


def make_predictor(encoder, schema=SCHEMA, **parts):
    inner = sp.SetEncoder(schema.dim, hidden=32, latent=16, size=schema.size)
    return sp.SetPredictor(encoder, sp.iDSPN(inner, size=schema.size, dim=schema.dim, **parts), schema).train()


@torch.no_grad()
def sets_of(predictor, inputs, start, steps, mask=None):
    return predictor.eval().decoder.solve(predictor.encode(inputs, mask), init=start, steps=steps).sets


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """A predictor of vectors, and the folder with its ONNX file and itself, saved."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    predictor = make_predictor(sp.VectorEncoder(3, 32, 16), solver=sp.Nesterov(steps=5, eval_steps=8, clip=0.05))
    predictor.save_pretrained(folder)
    assert export_trained(str(folder)) == folder / "model.onnx"
    return predictor, folder / "model.onnx"


def test_onnx_takes_any_batch_any_start_and_any_number_of_iterations(vectors, capfd):
    predictor, path = vectors
    session = onnxruntime.InferenceSession(path)
    assert capfd.readouterr().err == "", "onnxruntime has nothing to warn of"
    assert [(value.name, value.shape) for value in session.get_inputs()] == [
        ("input", ["batch", 3]),
        ("start", ["batch", 4, SCHEMA.dim]),
        ("steps", []),
    ]
    for batch, steps in ((1, 1), (7, 8), (64, 20)):
        inputs, start = torch.randn(batch, 3), torch.randn(batch, 4, SCHEMA.dim)
        feed = {"input": inputs.numpy(), "start": start.numpy(), "steps": np.array(steps)}
        found, diverged = session.run(None, feed)
        assert not diverged.any()
        wanted = sets_of(predictor, inputs, start, steps)
        assert np.abs(found - wanted.numpy()).max() < 1e-4
        assert (wanted - start).abs().max() > 0.01


def test_equal_elements_are_separated_in_onnx_too(vectors):
    _, path = vectors
    feed = {"input": np.ones((1, 3), np.float32), "start": np.zeros((1, 4, SCHEMA.dim), np.float32)}
    ((first, *others),) = onnxruntime.InferenceSession(path).run(None, feed | {"steps": np.array(3)})[0]
    assert all(np.abs(first - other).max() > 1e-3 for other in others)


RUN = """
import json, runpy, sys
import numpy as np
predict = runpy.run_path(sys.argv[1])["predict"]
print(json.dumps(predict(sys.argv[2], np.array(json.loads(sys.argv[3])), threshold=-9.0)))
assert not {"torch", "setpred"} & set(sys.modules)
"""


def test_the_example_predicts_the_same_objects_without_this_package(vectors):
    predictor, path = vectors
    inputs = torch.randn(3, 3)
    words = [sys.executable, "-c", RUN, EXAMPLE, path, json.dumps(inputs.tolist())]
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    for objects, same in zip(json.loads(result.stdout), predictor.predict(inputs, threshold=-9.0), strict=True):
        for found, wanted in zip(objects, same, strict=True):
            wanted.pop("confidence")
            assert found.keys() == wanted.keys()
            for name, value in wanted.items():
                expected = value if isinstance(value, str | bool) else pytest.approx(value, abs=1e-2)
                assert found[name] == expected


def test_torch_s_file_holds_masks_constraints_tolerance_and_a_learned_start(tmp_path):
    predictor = make_predictor(
        sp.SetEncoder(2, 32, 16, size=6),
        solver=sp.GradientDescent(steps=5, lr=0.7, tol=0.02),
        init=sp.LearnedInit(weight=0.3),
        constraint=sp.PerSlice({(0, 2): sp.Box(), (3, 5): sp.Simplex()}),
    )
    mask = torch.ones(1, 6, dtype=torch.bool)
    path = sp.export.to_torch(predictor, tmp_path / "model.pt2", torch.zeros(1, 6, 2), mask)
    about = {"setpred.json": ""}
    model = torch.export.load(path, extra_files=about).module()
    about = json.loads(about["setpred.json"])
    assert torch.equal(torch.tensor(about["start"]), predictor.decoder.init.sets)
    assert about["steps"] == 5
    assert predictor.training
    for batch, steps in ((1, 3), (9, 12)):
        inputs, start, mask = torch.randn(batch, 6, 2), torch.randn(batch, 4, SCHEMA.dim), torch.rand(batch, 6) < 0.7
        wanted = sets_of(predictor, inputs, start, steps, mask)
        found, diverged = model(inputs, start, torch.tensor(steps), mask)
        assert torch.allclose(found, wanted, atol=1e-5)
        assert not diverged.any()


def test_a_last_step_that_settles_is_exported_and_restarts_are_left_out(tmp_path):
    solver = sp.Nesterov(steps=5, settle=True)
    predictor = make_predictor(sp.VectorEncoder(3, 32, 16), solver=solver, restart=sp.Restart())
    predictor.decoder.restart.threshold.zero_()
    path = sp.export.to_onnx(predictor, tmp_path / "model.onnx", torch.zeros(1, 3))
    session = onnxruntime.InferenceSession(path)
    for steps in (1, 2, 12):
        inputs, start = torch.randn(6, 3), torch.randn(6, 4, SCHEMA.dim)
        (found,) = session.run(["sets"], {"input": inputs.numpy(), "start": start.numpy(), "steps": np.array(steps)})
        assert np.abs(found - sets_of(predictor, inputs, start, steps).numpy()).max() < 1e-4


def test_a_file_says_what_diverged_and_gives_the_best_finite_sets(tmp_path):
    """Some inputs blow up in ten steps of this size, others do not."""
    predictor = make_predictor(sp.VectorEncoder(3, 32, 16), solver=sp.GradientDescent(steps=10, lr=3e3)).eval()
    session = onnxruntime.InferenceSession(sp.export.to_onnx(predictor, tmp_path / "model.onnx", torch.zeros(1, 3)))
    start = torch.randn(8, 4, SCHEMA.dim) * torch.logspace(-2, 3, 8)[:, None, None]
    inputs = torch.randn(8, 3)
    for steps in (10, 60):
        feed = {"input": inputs.numpy(), "start": start.numpy(), "steps": np.array(steps)}
        found, diverged = session.run(["sets", "diverged"], feed)
        with torch.no_grad():
            solution = predictor.decoder.solve(predictor.encode(inputs), init=start, steps=steps)
        assert solution.diverged.any()
        assert diverged.tolist() == solution.diverged.tolist()
        assert np.isfinite(found).all()
        torch.testing.assert_close(torch.from_numpy(found)[diverged], solution.sets[diverged], rtol=1e-3, atol=1e-3)


def test_a_guess_is_exported_and_the_start_is_added_to_it(tmp_path):
    predictor = make_predictor(sp.VectorEncoder(3, 32, 16), init=sp.GuessedInit(16))
    session = onnxruntime.InferenceSession(sp.export.to_onnx(predictor, tmp_path / "model.onnx", torch.zeros(1, 3)))
    about = session.get_modelmeta().custom_metadata_map
    own = torch.tensor(json.loads(about["start"]))
    predictor.eval()
    for batch in (1, 6):
        inputs = torch.randn(batch, 3)
        feed = {"input": inputs.numpy(), "start": own.expand(batch, -1, -1).numpy(), "steps": np.array(4)}
        with torch.no_grad():
            wanted = predictor.decoder.solve(predictor.encode(inputs), steps=4).sets
        assert np.abs(session.run(None, feed)[0] - wanted.numpy()).max() < 1e-4


def test_what_cannot_be_exported_is_told_in_a_sentence(tmp_path):
    encoder, vector = sp.VectorEncoder(3, 32, 16), torch.zeros(1, 3)
    refused = {
        "solver.lr is a function": {"solver": sp.Nesterov(lr=lambda t: 0.5)},
        "TorchOptimizer cannot be exported: use Nesterov": {"solver": sp.TorchOptimizer(torch.optim.Adam)},
    }
    for message, parts in refused.items():
        with pytest.raises(UsageError, match=message):
            sp.export.to_torch(make_predictor(encoder, **parts), tmp_path / "model.pt2", vector)
    slots = sp.SetPredictor(SlotMLP(16, width=8, hidden=8), None, CLEVR_SCHEMA)
    with pytest.raises(UsageError, match="SlotMLP has no inner loop to export"):
        sp.export.to_onnx(slots, tmp_path / "model.onnx", torch.zeros(1, 3, 16, 16))
    make_predictor(encoder).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="unknown format 'onxn': did you mean onnx"):
        export_trained(str(tmp_path), to="onxn")
    with pytest.raises(UsageError, match="is a folder: name the file"):
        export_trained(str(tmp_path), out=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors"}


def test_a_model_of_images_goes_from_the_command_line_to_the_example(tmp_path):
    from PIL import Image

    always = sp.Schema({"kind": sp.Category("cat", "dog"), "at": sp.Real(2)}, size=3, presence=False)
    predictor = make_predictor(sp.ImageEncoder(latent=16, size=64), always)
    predictor.save_pretrained(tmp_path)
    command = [sys.executable, "-m", "setpred", "export", tmp_path, "--out", tmp_path / "scene.onnx"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.split() == [str(tmp_path / "scene.onnx")]
    pixels = torch.randint(256, (3, 64, 64), dtype=torch.uint8)
    Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(tmp_path / "scene.png")
    run = [sys.executable, EXAMPLE, tmp_path / "scene.onnx", tmp_path / "scene.png"]
    objects = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    for found, wanted in zip(objects, predictor.predict(pixels[None])[0], strict=True):
        assert found["kind"] == wanted["kind"]
        assert found["at"] == pytest.approx(wanted["at"], abs=1e-4)


@pytest.mark.parametrize("pool", ["sum", "max"])
def test_points_in_the_plane_and_other_poolings_are_exported(pool, tmp_path):
    schema = sp.Schema({"at": sp.Real(2)}, size=5, presence=False)
    decoder = sp.iDSPN(sp.SetEncoder(2, 16, 16, 5, pool=pool), size=5, dim=2, solver=sp.Nesterov(steps=4))
    predictor = sp.SetPredictor(sp.VectorEncoder(3, 16, 16), decoder, schema).eval()
    path = sp.export.to_torch(predictor, tmp_path / "model.pt2", torch.randn(1, 3))
    inputs, start = torch.randn(7, 3), torch.randn(7, 5, 2)
    exported = torch.export.load(path).module()
    found, _ = exported(inputs, start, torch.tensor(4))
    torch.testing.assert_close(found, sets_of(predictor, inputs, start, 4))

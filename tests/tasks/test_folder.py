"""Training on a folder of one's own: what is picked, and what is learned."""

import json
import random

import pytest
import torch

from setpred.encoders import Standardized
from setpred.errors import UsageError
from setpred.schema import Category, Real, Schema
from setpred.tasks import make_experiment, make_settings
from setpred.tasks.folder import distances
from setpred.tasks.folder_settings import FolderData, quick, small
from setpred.training.run import train
from setpred.training.run_folder import read_result

TINY = {
    "optim.steps": 120,
    "optim.batch": 32,
    "trainer.round": 60,
    "net.hidden": 48,
    "net.latent": 48,
    "solver.steps": 6,
    "trainer.logger": None,
}


def write(root, shift=0.0, scale=1.0, sizes=(1, 3), share=1.0):
    """Points on a line; the input tells their sum and number, in any units."""
    root.mkdir()
    rng = random.Random(0)
    for name, count in (("train", 96), ("val", 32)):
        with (root / f"{name}.jsonl").open("w") as file:
            for _ in range(count):
                first, step = rng.uniform(-1, 1), rng.uniform(0.5, 1)
                xs = [first + step * i for i in range(rng.randint(*sizes))]
                given = [first, step, len(xs)]
                objects = [{"x": x, "sign": "plus" if x > 0 else "minus"} for x in xs]
                file.write(json.dumps({"vector": [shift + scale * g for g in given], "objects": objects}) + "\n")
    return root


def settings(root, model="idspn", **changes):
    overrides = TINY | {key.replace("__", "."): value for key, value in changes.items()}
    return make_settings(str(root), model, "quick", overrides=overrides)


@pytest.mark.parametrize("model", ["idspn", "dspn", "idspn-sum", "idspn-mean", "idspn-relation"])
def test_every_model_learns(tmp_path, model):
    chosen = settings(write(tmp_path / "data"), model)
    before = make_experiment(chosen).eval()
    with torch.no_grad():
        first = before.judge(before.split("test"))
    result = train(chosen, tmp_path / "run", quiet=True)["metrics"]
    assert result["loss"] < 0.5 * float(first["loss"].mean())
    assert result["score"] > float(first["score"].mean())


def test_the_units_of_the_inputs_do_not_matter(tmp_path):
    losses = []
    for name, shift, scale in (("plain", 0.0, 1.0), ("odd", 5e4, 1e3)):
        train(settings(write(tmp_path / name, shift, scale)), tmp_path / f"{name}-run", quiet=True)
        losses.append(read_result(tmp_path / f"{name}-run")["metrics"]["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=0.2)


def test_sets_of_one_size_are_kept_where_their_fields_can_be(tmp_path):
    root = write(tmp_path / "data", sizes=(2, 2))
    experiment = make_experiment(settings(root)).eval()
    assert not experiment.schema.presence
    with torch.no_grad():
        sets = experiment(experiment.split("test")[0])
    assert torch.allclose(sets[..., 1:].sum(-1), torch.ones(32, 2), atol=1e-5)
    assert sets[..., 0].abs().max() <= 1
    assert make_experiment(settings(root, net__constraint=None)).predictor.decoder.constraint is None


def test_with_presence_constraints_are_there_when_asked_for(tmp_path):
    root = write(tmp_path / "data")
    assert make_experiment(settings(root)).predictor.decoder.constraint is None
    experiment = make_experiment(settings(root, net__constraint="fields")).eval()
    with torch.no_grad():
        sets = experiment(experiment.split("test")[0])
    assert torch.allclose(sets[..., 1:3].sum(-1), torch.ones(32, 3), atol=1e-5)


def test_a_weight_counts_a_field_in_the_loss(tmp_path):
    root = write(tmp_path / "data")
    plain = make_experiment(settings(root))
    heavy = Schema({**plain.schema.fields, "x": Real(range=(-2, 4), weight=9)}, size=3)
    other = make_experiment(settings(root, data__schema=json.dumps(heavy.to_dict())))
    other.predictor.load_state_dict(plain.predictor.state_dict())
    batch = plain.split("test")
    with torch.no_grad():
        assert other.eval().loss(batch) > plain.eval().loss(batch)


def test_a_run_needs_the_inputs_it_was_made_for(tmp_path):
    run = settings(write(tmp_path / "data"))
    other = write(tmp_path / "other")
    (other / "train.jsonl").write_text('{"vector": [1, 2], "objects": []}\n')
    (other / "val.jsonl").write_text('{"vector": [1, 2], "objects": []}\n')
    run.data.folder = str(other)
    with pytest.raises(UsageError, match="the inputs differ in kind from the inputs of this run"):
        make_experiment(run).split("test")


def found(kind, train, schema_size=3, size=64):
    schema = Schema({"at": Real(2, range=(0, 10)), "kind": Category("cat", "dog")}, size=schema_size)
    return FolderData(kind=kind, dim=3, size=size, train=train, test=10, schema=json.dumps(schema.to_dict()))


def test_what_is_picked_follows_the_data():
    tiny, usual, huge = (small(found("vector", train)) for train in (20, 3_000, 500_000))
    assert tiny["optim.batch"] < usual["optim.batch"] == huge["optim.batch"]
    assert tiny["optim.steps"] <= usual["optim.steps"] <= huge["optim.steps"] == 20_000
    assert small(found("vector", 3_000, schema_size=100))["net.latent"] > usual["net.latent"]
    assert quick(found("image", 3_000))["optim.steps"] < small(found("image", 3_000))["optim.steps"]
    assert distances(Schema({"at": Real(2, range=(0, 10))}, size=3)) == (torch.inf, 2.5, 1.0, 0.5, 0.25)
    assert distances(Schema({"kind": Category("cat", "dog")}, size=3)) == (torch.inf,)


def test_inputs_that_never_vary_are_no_trouble():
    encoder = Standardized(torch.nn.Identity(), dim=3)
    encoder.measure(torch.tensor([[1.0, 7.0, 1e6], [3.0, 7.0, 1e6 + 1]]))
    standard = encoder(torch.tensor([[1.0, 7.0, 1e6], [3.0, 8.0, 1e6 + 1]]))
    assert standard[:, :2].tolist() == [[-1, 0], [1, 1]]
    assert standard.isfinite().all()


def test_input_sets_fit_the_size_that_is_asked_for(tmp_path):
    line = json.dumps({"set": [[1.0], [2.0], [3.0]], "objects": [{"x": 1.0}]})
    for name in ("train", "val"):
        (tmp_path / f"{name}.jsonl").write_text(f"{line}\n" * 4)
    with pytest.raises(UsageError, match=r"an input set has 3 elements, data\.size=2 is the most"):
        train(settings(tmp_path, data__size=2), tmp_path / "run", quiet=True)

"""A part of one's own is one class: docs/design.md says what to touch, and here it is tried with everything else."""

import json
import sys
import textwrap
from dataclasses import dataclass
from importlib import import_module

import pytest
import torch
from PIL import Image
from torch import nn

import setpred as sp
from setpred.metrics import score_objects

SIZE, DIM, LATENT = 3, 2, 8


@dataclass
class Below(sp.Constraint):
    """Every number at most `top`."""

    top: float = 0.1

    def __call__(self, sets):
        return sets.clamp(max=self.top)


class Scattered(sp.Init):
    """Elements at equal distances on a line."""

    def forward(self, batch, like, generator=None):
        return torch.linspace(-1, 1, self.size).to(like)[:, None].expand(batch, self.size, self.dim)


@dataclass
class Halved(sp.Implicit):
    """Half of what `Identity` gives."""

    def implicit_step(self, grad, point, constraint, given):
        return -grad / 2


class MidrangePool(nn.Module):
    """The middle between the smallest and the largest value."""

    def forward(self, features, mask=None):
        return (features.amin(dim=1) + features.amax(dim=1)) / 2


@dataclass
class Plain(sp.Solver):
    """Gradient descent, once more."""

    def update(self, sets, grad, state, t):
        return sets - grad, None


PARTS = {
    "constraint": lambda: {"constraint": Below()},
    "init": lambda: {"init": Scattered()},
    "adjoint": lambda: {"adjoint": Halved()},
    "pooling": lambda: {"encoder": sp.SetEncoder(DIM, hidden=8, latent=LATENT, size=SIZE, pool=MidrangePool())},
    "solver": lambda: {"solver": Plain(steps=3)},
    "all": lambda: {"constraint": Below(), "init": Scattered(), "adjoint": Halved(), "solver": Plain(steps=3)},
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_a_decoder_takes_a_new_part_as_it_is(parts, tmp_path):
    fresh = {"encoder": sp.SetEncoder(DIM, hidden=8, latent=LATENT, size=SIZE), **parts()}
    decoder = sp.iDSPN(**fresh)
    z = torch.randn(4, LATENT, requires_grad=True)
    sets = decoder(z)
    assert sets.shape == (4, SIZE, DIM)
    sets.square().sum().backward()
    assert z.grad.isfinite().all()
    if decoder.constraint is not None:
        assert sets.max() <= 0.1
    decoder.eval().save_pretrained(tmp_path)
    loaded = sp.iDSPN.from_pretrained(tmp_path, **parts())
    assert torch.equal(loaded(z), decoder(z))


def add(monkeypatch, folder, room, name, code):
    """A file in a room of the house, and the line of its class in `__init__.pyi`."""
    module = name.lower()
    (folder / f"{module}.py").write_text(textwrap.dedent(code), encoding="utf-8")
    package = import_module(f"setpred{room}")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    monkeypatch.setitem(sp.PUBLIC, name, f"{room}.{module}")
    monkeypatch.delitem(sys.modules, f"setpred{room}.{module}", raising=False)
    return getattr(sp, name)


PERCENT = '''
    from dataclasses import dataclass

    from ..constraints import Box
    from ..values import finite
    from .fields import Field


    @dataclass(frozen=True)
    class Percent(Field):
        """A number from 0 to 100."""

        weight: float = 1.0

        @property
        def dim(self):
            return 1

        def encode(self, value):
            return [finite(value) / 100]

        def decode(self, numbers):
            return (100 * numbers[:, 0].clamp(0, 1)).tolist()

        def closeness(self, prediction, target, tolerance):
            return 1 / (1 + ((prediction - target)[..., 0] / tolerance).square())

        def constraint(self):
            return Box(0.0, 1.0)
'''


def test_a_new_field_is_one_class_and_its_line(monkeypatch, tmp_path):
    percent = add(monkeypatch, tmp_path, ".schema", "Percent", PERCENT)
    schema = sp.Schema({"full": percent(weight=2.0), "kind": sp.Category("cup", "jar")}, size=SIZE)
    plain = schema.to_dict()
    assert plain["fields"]["full"]["type"] == "percent"
    assert sp.Schema.from_dict(plain) == schema
    things = [{"full": 25.0, "kind": "jar"}, {"full": 100.0, "kind": "cup"}]
    target, mask = schema.encode_batch([things])
    assert [{key: found[key] for key in ("full", "kind")} for found in schema.decode(target[0])] == things
    assert sp.hungarian_loss(target.flip(1), target, cost=schema.cost) == 0
    assert score_objects(schema, target.flip(1), target, mask).exact.all()
    assert schema.constraint(even_absent=True)(2 * target).max() == 1
    assert schema.problems([{"full": "much", "kind": "cup"}]) == [
        "object 0, field 'full': 'much' is not a number: correct it"
    ]

    inner = sp.SetEncoder(schema.dim, hidden=8, latent=LATENT, size=schema.size)
    predictor = sp.SetPredictor(sp.VectorEncoder(dim=2, hidden=8, latent=LATENT), sp.iDSPN(inner), schema)
    predictor.save_pretrained(tmp_path)
    vectors = torch.randn(2, 2)
    found = sp.SetPredictor.from_pretrained(tmp_path).predict(vectors, threshold=-10.0)
    assert found == predictor.predict(vectors, threshold=-10.0)
    assert 0 <= found[0][0]["full"] <= 100


BRIGHTNESS = '''
    from torch import nn


    class Brightness(nn.Module):
        """An image encoder: a linear map of the mean colour."""

        def __init__(self, latent):
            super().__init__()
            self.latent, self.net = latent, nn.Linear(3, latent)

        def forward(self, images):
            return self.net(images.mean(dim=(2, 3)))
'''


def test_a_new_image_encoder_is_one_class_and_its_line(monkeypatch, tmp_path, setpred):
    brightness = add(monkeypatch, tmp_path, "", "Brightness", BRIGHTNESS)
    schema = sp.Schema({"at": sp.Real(2)}, size=SIZE)
    decoder = sp.iDSPN(sp.SetEncoder(schema.dim, hidden=8, latent=LATENT, size=SIZE))
    predictor = sp.SetPredictor(brightness(LATENT), decoder, schema)
    images = torch.randint(256, (2, 3, 16, 16), dtype=torch.uint8)
    predictor.save_pretrained(tmp_path / "saved")
    loaded = sp.SetPredictor.from_pretrained(tmp_path / "saved")
    found = predictor.predict(images, threshold=-10.0)
    assert loaded.predict(images, threshold=-10.0) == found

    Image.new("RGB", (40, 30), (200, 30, 60)).save(tmp_path / "photo.png")
    code, out, _ = setpred("predict", str(tmp_path / "saved"), str(tmp_path / "photo.png"), "--threshold", "0")
    assert code == 0
    assert "at" in json.loads(out)["objects"][0]


SUMS = '''
    from torch import nn


    class Sums(nn.Module):
        """An encoder of vectors: a linear map of their partial sums, in another module."""

        def __init__(self, dim, latent):
            super().__init__()
            self.dim, self.latent, self.encoder = dim, latent, Map(dim, latent)

        def forward(self, vectors):
            return self.encoder(vectors.cumsum(1))


    class Map(nn.Linear):
        takes = "vector"

        def __init__(self, dim, latent):
            super().__init__(dim, latent)
            self.dim = dim
'''


def test_a_new_encoder_says_what_it_takes_from_files(monkeypatch, tmp_path, setpred):
    sums = add(monkeypatch, tmp_path, "", "Sums", SUMS)
    schema = sp.Schema({"at": sp.Real(2)}, size=SIZE)
    decoder = sp.iDSPN(sp.SetEncoder(schema.dim, hidden=8, latent=LATENT, size=SIZE))
    sp.SetPredictor(sums(3, LATENT), decoder, schema).save_pretrained(tmp_path / "saved")
    (tmp_path / "inputs.jsonl").write_text(json.dumps({"vector": [1, 2, 3]}) + "\n", encoding="utf-8")
    code, out, _ = setpred("predict", str(tmp_path / "saved"), str(tmp_path / "inputs.jsonl"), "--threshold", "-9")
    assert code == 0
    assert len(json.loads(out)["objects"]) == SIZE
    (tmp_path / "sets.jsonl").write_text(json.dumps({"set": [[1, 2, 3]]}) + "\n", encoding="utf-8")
    code, _, err = setpred("predict", str(tmp_path / "saved"), str(tmp_path / "sets.jsonl"))
    assert code == 2
    assert "vector" in err


SIZE_ERROR = '''
    import torch
    from torchmetrics import Metric


    class SizeError(Metric):
        """By how many elements sets are too large or too small, in the mean."""

        full_state_update = False

        def __init__(self):
            super().__init__()
            self.add_state("wrong", default=torch.zeros(()), dist_reduce_fx="sum")
            self.add_state("total", default=torch.zeros(()), dist_reduce_fx="sum")

        def update(self, prediction_mask, target_mask):
            self.wrong += (prediction_mask.sum(1) - target_mask.sum(1)).abs().sum()
            self.total += len(target_mask)

        def compute(self):
            return self.wrong / self.total
'''


def test_a_new_metric_is_one_file_and_its_line(monkeypatch, tmp_path):
    metric = add(monkeypatch, tmp_path, ".metrics", "SizeError", SIZE_ERROR)()
    metric.update(torch.ones(2, 3).bool(), torch.tensor([[True, False, False], [True, True, True]]))
    assert metric.compute() == 1

"""A part of one's own is one class: docs/design.md says what to touch, and here it is tried with everything else."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import setpred as sp
from setpred.metrics import score_objects
from setpred.schema import element
from setpred.values import finite

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


@dataclass(frozen=True)
class Percent(sp.Field):
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
        return sp.Box(0.0, 1.0)


def test_a_schema_takes_a_new_field_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setitem(element.KINDS, "percent", Percent)
    schema = sp.Schema({"full": Percent(weight=2.0), "kind": sp.Category("cup", "jar")}, size=SIZE)
    assert sp.Schema.from_dict(schema.to_dict()) == schema
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


class Brightness(nn.Module):
    """An image encoder: a linear map of the mean colour."""

    def __init__(self, latent):
        super().__init__()
        self.latent, self.net = latent, nn.Linear(3, latent)

    def forward(self, images):
        return self.net(images.mean(dim=(2, 3)))


def test_a_predictor_takes_a_new_image_encoder_as_it_is(tmp_path):
    schema = sp.Schema({"at": sp.Real(2)}, size=SIZE)
    decoder = sp.iDSPN(sp.SetEncoder(schema.dim, hidden=8, latent=LATENT, size=SIZE))
    predictor = sp.SetPredictor(Brightness(LATENT), decoder, schema)
    images = torch.randint(256, (2, 3, 16, 16), dtype=torch.uint8)
    predictor.save_pretrained(tmp_path)
    loaded = sp.SetPredictor.from_pretrained(tmp_path, encoder=Brightness(LATENT))
    assert loaded.predict(images, threshold=-10.0) == predictor.predict(images, threshold=-10.0)

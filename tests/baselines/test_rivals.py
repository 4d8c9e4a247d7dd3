"""The rivals of folders: whatever the input, they learn sets, know how many elements there are, and can be exported."""

import pytest
import torch

from setpred import Category, Real, Schema, SetEncoder, SetPredictor, VectorEncoder
from setpred.baselines import AllAtOnce, CompetingSlots, ImageTokens, LearnedQueries, SetTokens, VectorTokens
from setpred.export.formats import to_onnx

SCHEMA = Schema({"at": Real(2), "kind": Category("a", "b")}, size=3)
KINDS = ("vector", "set", "image")


def examples(kind, count):
    """One to three points, and what tells where they are."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.arange(count) % 3 + 1
    mask = torch.arange(3) < sizes[:, None]
    at = torch.rand(count, 3, 2, generator=generator) * 2 - 1
    kinds = torch.nn.functional.one_hot((at[..., 0] > 0).long(), 2)
    target = torch.cat([at, kinds, torch.ones(count, 3, 1)], dim=-1) * mask[..., None]
    if kind == "set":
        return (at * mask[..., None], mask), target, mask
    if kind == "vector":
        order = target.gather(1, target[..., :1].argsort(dim=1).expand_as(target))
        return (order.flatten(1),), target, mask
    images = torch.zeros(count, 3, 16, 16)
    columns, rows = ((at + 1) * 7.99).long().unbind(-1)
    for i in range(count):
        images[i, :, rows[i, : sizes[i]], columns[i, : sizes[i]]] = 1.0
    return (images,), target, mask


def rival(name, kind):
    torch.manual_seed(0)
    if name == "mlp":
        encoder = {"vector": lambda: VectorEncoder(15, 32, 32), "set": lambda: SetEncoder(2, 32, 32, 3)}
        return AllAtOnce(SCHEMA, encoder[kind](), latent=32, features=32)
    tokens = {
        "vector": lambda: VectorTokens(15, 32, features=32),
        "set": lambda: SetTokens(2, 3, features=32, layers=1),
        "image": lambda: ImageTokens(4, patch=2, features=32),
    }[kind]()
    if name == "queries":
        return LearnedQueries(SCHEMA, tokens, layers=2)
    return CompetingSlots(SCHEMA, tokens, **({"implicit": False, "iterations": 3} if name == "slots-unrolled" else {}))


CASES = [
    (name, kind)
    for name in ("mlp", "queries", "slots", "slots-unrolled")
    for kind in KINDS
    if (name, kind) != ("mlp", "image")
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_rival_learns_where_points_are_and_how_many(name, kind):
    inputs, target, mask = examples(kind, 24)
    model = rival(name, kind)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        loss = model.loss(inputs[0], target, mask, *inputs[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    model.calibrate([(inputs[0], target, mask, *inputs[1:])])
    found = (model.eval()(*inputs)[..., -1] >= 0.5).sum(1)
    assert (found == mask.sum(1)).float().mean() >= 1 / 3  # of three sizes, chance is one in three


@pytest.mark.parametrize("name", ["mlp", "queries", "slots", "slots-unrolled"])
def test_padding_of_input_sets_changes_nothing(name):
    (sets, given), _, _ = examples("set", 5)
    model = rival(name, "set").eval()
    noisy = torch.where(given[..., None], sets, torch.randn_like(sets))
    assert torch.allclose(model(noisy, given), model(sets, given), atol=1e-6)


# Every model and every kind of input each day, all pairs each night.
DAILY = {("mlp", "vector"), ("queries", "image"), ("slots", "set"), ("slots-unrolled", "vector")}


@pytest.mark.parametrize(
    ("name", "kind"),
    [pytest.param(*case, marks=[] if case in DAILY else pytest.mark.nightly) for case in CASES],
)
def test_exports_agree(name, kind, tmp_path):
    import onnxruntime

    inputs, _, _ = examples(kind, 5)
    model = rival(name, kind).eval()
    path = to_onnx(SetPredictor(model, None, SCHEMA), tmp_path / "model.onnx", *(t[:1] for t in inputs))
    session = onnxruntime.InferenceSession(path)
    feed = dict(zip((i.name for i in session.get_inputs()), (t.numpy() for t in inputs), strict=True))
    (sets,) = session.run(None, feed)
    assert torch.allclose(torch.from_numpy(sets), model(*inputs), atol=1e-4)


def test_an_empty_input_set_is_answered():
    for name in ("queries", "slots"):
        sets = rival(name, "set").eval()(torch.zeros(2, 3, 2), torch.zeros(2, 3, dtype=torch.bool))
        assert sets.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_equal_slots_stay_equal_whatever_the_input(kind):
    inputs, _, _ = examples(kind, 1)
    report = (
        rival("slots", kind)
        .double()
        .eval()
        .check_equivariance(*(t.double() if t.is_floating_point() else t for t in inputs))
    )
    assert report.set_equivariant
    assert not report.exclusive

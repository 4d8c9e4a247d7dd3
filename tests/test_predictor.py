"""A predictor takes what people have and gives objects in their units."""

import pytest
import torch

import setpred as sp
from setpred.baselines import SlotAttention
from setpred.data.clevr import CLEVR_SCHEMA

SCHEMA = sp.Schema({"at": sp.Real(2, range=(0, 10)), "kind": sp.Category("cat", "dog")}, size=3)


def make_decoder(latent=8):
    encoder = sp.SetEncoder(SCHEMA.dim, hidden=16, latent=latent, size=SCHEMA.size)
    return sp.iDSPN(encoder, size=SCHEMA.size, dim=SCHEMA.dim, solver=sp.Nesterov(steps=5))


ENCODERS = {
    "image": (lambda: sp.ImageEncoder(latent=8, size=64), torch.rand(2, 3, 64, 64)),
    "vector": (lambda: sp.VectorEncoder(dim=4, hidden=16, latent=8), torch.rand(2, 4)),
    "set": (lambda: sp.SetEncoder(dim=2, hidden=16, latent=8, size=6), torch.rand(2, 6, 2)),
    "pairs": (lambda: sp.RelationEncoder(dim=2, hidden=16, latent=8, size=6), torch.rand(2, 6, 2)),
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_any_kind_of_input_becomes_objects_of_the_schema(kind):
    make, inputs = ENCODERS[kind]
    predictor = sp.SetPredictor(make(), make_decoder(), SCHEMA).eval()
    everything = predictor.predict(inputs, threshold=-torch.inf)
    assert [len(objects) for objects in everything] == [3, 3]
    for thing in everything[0]:
        assert thing["kind"] in ("cat", "dog")
        assert all(0 <= number <= 10 for number in thing["at"])
        assert set(thing["confidence"]) == {"presence", "kind"}
    assert predictor.predict(inputs, threshold=torch.inf) == [[], []]
    with torch.no_grad():
        assert everything == SCHEMA.decode_batch(predictor(inputs), -torch.inf)


def test_bytes_are_images_as_files_hold_them():
    predictor = sp.SetPredictor(sp.ImageEncoder(latent=8, size=64), make_decoder(), SCHEMA).eval()
    images = torch.randint(256, (2, 3, 64, 64), dtype=torch.uint8)
    assert torch.equal(predictor(images), predictor(images.float() / 255))


def test_whole_numbers_of_a_vector_are_not_scaled():
    predictor = sp.SetPredictor(sp.VectorEncoder(4, 16, 8), make_decoder(), SCHEMA).eval()
    counts = torch.tensor([[1, 2, 3, 4]])
    assert torch.equal(predictor(counts), predictor(counts.float()))


def test_padding_of_an_input_set_does_not_matter():
    predictor = sp.SetPredictor(sp.SetEncoder(2, 16, 8, size=6), make_decoder(), SCHEMA).eval()
    sets, mask = sp.pad_sets([torch.rand(4, 2)], size=6)
    other = torch.where(mask[..., None], sets, 7.0)
    assert predictor.predict(sets, mask=mask) == predictor.predict(other, mask=mask)


def test_predicting_in_the_middle_of_training_is_deterministic_and_leaves_the_modes_alone():
    predictor = sp.SetPredictor(sp.ImageEncoder(latent=8, size=64), make_decoder(), SCHEMA).train()
    predictor.encoder.norm.eval()
    images = torch.rand(2, 3, 64, 64)
    first = predictor.predict(images, threshold=-torch.inf)
    assert first == predictor.predict(images, threshold=-torch.inf)
    assert predictor.training
    assert predictor.decoder.training
    assert not predictor.encoder.norm.training
    assert predictor.encoder.resnet.bn1.num_batches_tracked == 0


def test_more_iterations_can_be_asked_for():
    predictor = sp.SetPredictor(sp.VectorEncoder(4, 16, 8), make_decoder(), SCHEMA).eval()
    vectors = torch.randn(2, 4)
    with torch.no_grad():
        sets = predictor.decoder.solve(predictor.encode(vectors), steps=17).sets
    assert predictor.predict(vectors, steps=17, threshold=-1) == SCHEMA.decode_batch(sets, -1)


def test_an_inner_optimisation_that_diverged_is_told():
    decoder = make_decoder()
    predictor = sp.SetPredictor(sp.VectorEncoder(4, 16, 8), decoder, SCHEMA).eval()
    fine = predictor.predict(torch.randn(3, 4))
    assert fine.diverged == [False] * 3
    decoder.solver = sp.GradientDescent(steps=40, lr=1e12)
    with pytest.warns(UserWarning, match=r"diverged for 3 of 3 inputs, whose objects are not to be trusted") as caught:
        found = predictor.predict(torch.randn(3, 4))
    assert found.diverged == [True] * 3
    assert caught[0].filename == __file__


def test_it_trains_from_objects_to_input():
    predictor = sp.SetPredictor(sp.VectorEncoder(4, 16, 8), make_decoder(), SCHEMA)
    target = SCHEMA.encode_batch([[{"at": [5, 5], "kind": "cat"}]] * 2)[0]
    sp.hungarian_loss(predictor(torch.randn(2, 4)), target).mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in predictor.parameters())


def test_a_model_without_inner_iterations_predicts_too():
    predictor = sp.SetPredictor(SlotAttention(width=8, hidden=8), None, CLEVR_SCHEMA)
    (objects,) = predictor.predict(torch.rand(1, 3, 16, 16), threshold=0.0)
    assert len(objects) == 10
    with pytest.raises(ValueError, match="SlotAttention has no inner iterations: leave steps out"):
        predictor.predict(torch.rand(1, 3, 16, 16), steps=3)


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match=r"the decoder makes sets of \[3, 5\], the schema describes \[10, 19\]"):
        sp.SetPredictor(sp.VectorEncoder(4, 16, 8), make_decoder(), CLEVR_SCHEMA)
    predictor = sp.SetPredictor(sp.VectorEncoder(4, 16, 8), make_decoder(), SCHEMA)
    with pytest.raises(ValueError, match=r"vectors are \[2, 5\], this network takes \[batch, 4\]"):
        predictor.predict(torch.zeros(2, 5))
    with pytest.raises(ValueError, match="the input is list: pass a tensor"):
        predictor.predict([[1.0, 2.0, 3.0, 4.0]])

"""What was written for the version before still works, and says how it is written now."""

import json
import warnings
from importlib import import_module

import pytest
import torch

import setpred as sp
from setpred.recipes import build, recipe

FIELDS = {
    "at": lambda **weight: sp.Real(2, **weight),
    "kind": lambda **weight: sp.Category("cat", "dog", **weight),
    "tame": lambda **weight: sp.Flag(**weight),
    "legs": lambda **weight: sp.Count(4, **weight),
    "heading": lambda **weight: sp.Angle(**weight),
}


@pytest.mark.parametrize("make", FIELDS.values(), ids=FIELDS)
def test_the_weight_of_a_field_was_its_share(make):
    with pytest.warns(DeprecationWarning, match=r"\(share=\) is called weight now"):
        old = make(share=2.0)
    assert old == make(weight=2.0)
    with pytest.warns(DeprecationWarning, match="share is called weight now"):
        assert old.share == 2.0
    with pytest.raises(TypeError, match="got weight and share"):
        make(share=2.0, weight=2.0)


def test_a_schema_written_with_shares_loads():
    new = sp.Schema({name: make(weight=3.0) for name, make in FIELDS.items()}, size=2)
    text = json.dumps(new.to_dict())
    assert '"weight": 3.0' in text
    with pytest.warns(DeprecationWarning, match="share"):
        old = sp.Schema.from_dict(json.loads(text.replace('"weight"', '"share"')))
    assert old == new
    with pytest.warns(DeprecationWarning, match="Schema.shares is called field_weights"):
        assert torch.equal(old.shares, new.field_weights)


def test_restarts_had_a_share():
    with pytest.warns(DeprecationWarning, match=r"Restart\(share=\) is called fraction"):
        assert sp.Restart(share=0.2).fraction == 0.2
    plain = recipe(sp.Restart(fraction=0.2))
    plain["share"] = plain.pop("fraction")
    with pytest.warns(DeprecationWarning, match="fraction"):
        assert build(plain).fraction == 0.2


def test_constraints_by_slices_were_called_fields():
    with pytest.warns(DeprecationWarning, match=r"setpred\.Fields is called PerSlice now"):
        assert sp.Fields is sp.PerSlice
    plain = recipe(sp.PerSlice({(0, 2): sp.Simplex()}))
    with pytest.warns(DeprecationWarning, match="PerSlice"):
        assert build({**plain, "class": "Fields"}) == sp.PerSlice({(0, 2): sp.Simplex()})


def test_a_model_saved_with_old_names_loads(tmp_path):
    encoder = sp.SetEncoder(dim=2, hidden=8, latent=8, size=3)
    decoder = sp.iDSPN(encoder, constraint=sp.PerSlice({(0, 1): sp.Box()}), restart=sp.Restart(fraction=0.2))
    decoder.save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"PerSlice"', '"Fields"').replace('"fraction"', '"share"'))
    with pytest.warns(DeprecationWarning, match="is called"):
        loaded = sp.iDSPN.from_pretrained(tmp_path)
    z = torch.randn(4, 8)
    assert torch.equal(loaded(z), decoder.eval()(z))


MASK = torch.tensor([[True, True, False]])
COMPARED = {
    "hungarian_loss": sp.hungarian_loss,
    "chamfer_loss": sp.chamfer_loss,
    "match": lambda *sets, **masks: sp.match(*sets, **masks).target,
    "assign": lambda a, b, **masks: sp.assign(torch.cdist(a, b), **masks).target,
}


@pytest.mark.parametrize("compare", COMPARED.values(), ids=COMPARED)
def test_the_mask_of_targets_that_are_not_as_many_is_the_target_mask(compare):
    few, many = torch.randn(1, 2, 4), torch.randn(1, 3, 4)
    with pytest.warns(DeprecationWarning, match="target_mask"):
        old = compare(few, many, mask=MASK)
    assert torch.equal(old, compare(few, many, target_mask=MASK))


@pytest.mark.parametrize("compare", COMPARED.values(), ids=COMPARED)
def test_one_mask_is_that_of_both_sets_and_is_quiet(compare):
    prediction, target = torch.randn(2, 1, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = compare(prediction, target, mask=MASK)
        assert torch.equal(both, compare(prediction, target, target_mask=MASK, prediction_mask=MASK))


def test_average_precision_has_a_target_mask():
    schema = sp.Schema({"at": sp.Real(2)}, size=3)
    sets, mask = schema.encode_batch([[{"at": [0, 0]}, {"at": [1, 1]}]])
    old, new = sp.SetAveragePrecision(schema), sp.SetAveragePrecision(schema)
    with pytest.warns(DeprecationWarning, match="is called target_mask now"):
        old.update(sets, sets, mask=mask)
    new.update(sets, sets, target_mask=mask)
    assert old.compute() == new.compute()


def test_new_names_are_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(sp.Schema({name: make(weight=3.0) for name, make in FIELDS.items()}, size=2).field_weights) == 5
        build(recipe(sp.Restart(fraction=0.1)))
        build(recipe(sp.PerSlice({(0, 2): sp.Simplex()})))


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("setpred.training.tasks", "setpred.tasks", "make_settings"),
        ("setpred.data.folder", "setpred.data.jsonl_folder", "open_folder"),
    ],
)
def test_modules_that_moved_are_found_at_their_old_place(old, new, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = import_module(old)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        assert getattr(module, name) is getattr(import_module(new), name)
    with pytest.raises(AttributeError):
        module.nothing  # noqa: B018

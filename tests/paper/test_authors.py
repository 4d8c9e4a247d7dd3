"""A checkpoint of the authors is the same function here, under our names and in our order."""

import pytest
import torch
from torch import nn

import setpred as sp
from setpred.errors import UsageError
from setpred.paper.authors import adopt, settings_of
from setpred.training.run import evaluate
from setpred.training.run_folder import load_run

N, CLASSES, WIDTH = 5, 3, 16
COMMON = {"seed": 7, "batch_size": 128, "lr": 1e-3, "hidden_dim": WIDTH, "latent_dim": 24}
DECODER = {"model": "idspn", "decoder_lr": 1.0, "decoder_iters": 6, "decoder_momentum": 0.9, "decoder_grad_clip": 40.0}
NUMBERING = {"set_size": N, "input_dim": CLASSES, "n_obj_per_sample": CLASSES, "rand_perm": False, "dataset_size": 640}
SETS = {"set_size": 4, "set_dim": 2, "dataset_size": 64_000}
CLEVR = {"clevr_image_size": 64}


def layers(prefix, dim, rows, latent=24):
    """Weights of two linear layers and a sort pooling, as the authors name them."""
    first, second = nn.Linear(dim, WIDTH), nn.Linear(WIDTH, latent)
    state = {
        f"{prefix}.mlp.{i}.{k}": v for i, layer in ((0, first), (2, second)) for k, v in layer.state_dict().items()
    }
    return state | ({f"{prefix}.pool.weight": torch.randn(rows, latent)} if rows else {})


def encoded(state, prefix, sets):
    """What their encoder makes of sets: channels sorted from low to high, weighted by rank."""
    w0, b0, w2, b2 = (state[f"{prefix}.mlp.{name}"] for name in ("0.weight", "0.bias", "2.weight", "2.bias"))
    features = ((sets @ w0.mT + b0).relu() @ w2.mT + b2).sort(dim=1).values
    return (features * state[f"{prefix}.pool.weight"]).sum(1)


def save(path, arguments, state):
    torch.save({"hyper_parameters": arguments, "state_dict": state, "epoch": 3}, path)
    return path


def test_numbers_come_before_classes_and_low_ranks_before_high_ones(tmp_path):
    outer, inner = layers("net.input_to_z", CLASSES, N), layers("net.inner_obj.encoder", N + CLASSES, N)
    again = {name.replace("net.inner_obj", "net.dspn.inner_obj"): value for name, value in inner.items()}
    settings = adopt(save(tmp_path / "a.ckpt", COMMON | DECODER | NUMBERING, outer | inner | again), tmp_path / "run")
    assert (settings.task, settings.model, settings.seed) == ("numbering", "idspn", 7)
    assert (settings.solver["steps"], settings.solver["clip"], settings.net.latent) == (6, 40.0, 24)
    model = load_run(tmp_path / "run")[1].model
    numbers, classes = torch.randn(2, N, N), torch.randn(2, N, CLASSES)
    state = outer | inner
    assert torch.allclose(model.encoder(classes), encoded(state, "net.input_to_z", classes), atol=1e-5)
    theirs = encoded(state, "net.inner_obj.encoder", torch.cat([numbers, classes], dim=-1))
    assert torch.allclose(model.decoder.encoder(torch.cat([classes, numbers], dim=-1)), theirs, atol=1e-5)
    assert 0 <= evaluate(tmp_path / "run", {"data.test": 8})["accuracy"] <= 1


def test_a_learned_start_comes_along_and_pooling_may_be_a_sum(tmp_path):
    arguments = COMMON | DECODER | SETS | {"decoder_learn_init_set": True, "decoder_pool": "sum"}
    state = layers("net.input_to_z", 2, 4) | layers("net.inner_obj.encoder", 2, None)
    start = {"net.dspn._set_0": torch.randn(1, 4, 2)}
    adopt(save(tmp_path / "a.ckpt", arguments, state | start), tmp_path / "run")
    decoder = load_run(tmp_path / "run")[1].decoder
    assert torch.equal(decoder.init.sets, start["net.dspn._set_0"][0])
    assert isinstance(decoder.encoder.pool, sp.SumPool)


@pytest.mark.parametrize("relation", [False, True])
def test_images_and_objects_of_clevr(tmp_path, relation):
    resnet = sp.ImageEncoder(latent=24, size=64).double()
    named = {f"layers.{place}.": f"resnet.{name}." for place, name in ((0, "conv1"), (1, "bn1"))}
    named |= {f"layers.{3 + i}.": f"resnet.layer{i}." for i in range(1, 5)} | {"end.0.": "norm.", "end.1.": "project."}
    images = {
        f"net.input_to_z.{theirs}{name.removeprefix(ours)}": value.float()
        for name, value in resnet.state_dict().items()
        for theirs, ours in named.items()
        if name.startswith(ours)
    }
    inner = layers("net.inner_obj.encoder", 38 if relation else 19, 100 if relation else 10)
    arguments = COMMON | DECODER | CLEVR | {"decoder_pool": "rnfs" if relation else "fs"}
    adopt(save(tmp_path / "a.ckpt", arguments, images | inner), tmp_path / "run")
    predictor = load_run(tmp_path / "run")[1].predictor
    pictures = torch.rand(2, 3, 64, 64)
    assert torch.allclose(predictor.encoder(pictures), resnet.float().eval()(pictures), atol=1e-4)
    objects = torch.rand(2, 10, 19)
    swapped = objects[..., [*range(14), 15, 14, 16, 17, 18]]  # cube before cylinder
    if relation:
        pairs = torch.cartesian_prod(torch.arange(10), torch.arange(10))
        swapped = torch.cat([swapped[:, pairs[:, 0]], swapped[:, pairs[:, 1]]], dim=-1)
    theirs = encoded(inner, "net.inner_obj.encoder", swapped)
    assert torch.allclose(predictor.decoder.encoder(objects), theirs, atol=1e-4)


def test_rivals_come_along(tmp_path):
    torch.manual_seed(0)
    ours = sp.baselines.Transformer(CLASSES, N, "random", WIDTH)
    names = {"source.": "proj_src.", "target.": "proj_tgt.", "head.": "proj_out."}
    state = {"net.alpha": torch.tensor([0.3]), "net.beta": torch.tensor([-1.0])}
    for name, value in ours.state_dict().items():
        for before, after in names.items():
            name = name.replace(before, after) if name.startswith(before) else name
        if not name.startswith("noise_"):
            state[f"net.{name}"] = value
    path = save(tmp_path / "a.ckpt", COMMON | NUMBERING | {"model": "transformer_rnd_pe"}, state)
    assert adopt(path, tmp_path / "run").model == "transformer-random-pe"
    ours.noise_mean.data.fill_(0.3)
    ours.noise_log_scale.data.fill_(-1.0)
    sets, noise = torch.randn(2, N, CLASSES), torch.randn(2, N, ours.noise_dim)
    model = load_run(tmp_path / "run")[1].model
    assert torch.allclose(model(sets, noise=noise), ours.eval()(sets, noise=noise), atol=1e-6)


def test_the_authors_dspn_is_unrolled_never_clips_and_leaves_its_start_alone():
    settings = settings_of(COMMON | DECODER | NUMBERING | {"model": "dspn", "decoder_momentum": 0.0})
    assert (settings.adjoint["class"], settings.solver["class"]) == ("Unrolled", "GradientDescent")
    assert (settings.solver["clip"], settings.init["projected"]) == (None, False)


@pytest.mark.parametrize(
    ("arguments", "state", "message"),
    [
        ({}, {}, "lacks 'set_size': is it a checkpoint of the paper's authors"),
        (COMMON | DECODER | SETS, layers("net.input_to_z", 2, 4), "lacks decoder.encoder.net.0.weight of idspn"),
        (COMMON | DECODER | SETS, {"net.strange": torch.zeros(1)}, "net.strange has no place in idspn"),
    ],
)
def test_what_is_no_such_checkpoint_is_refused_in_one_line(tmp_path, arguments, state, message):
    with pytest.raises(UsageError, match=message) as error:
        adopt(save(tmp_path / "a.ckpt", arguments, state), tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


SOUND = layers("net.input_to_z", 2, 4) | layers("net.inner_obj.encoder", 2, 4)
BIAS = "net.input_to_z.mlp.0.bias"


@pytest.mark.parametrize(
    ("arguments", "weights", "message"),
    [
        ({"hidden_dim": 10**9}, {}, "encoder.net.0.weight has no place"),  # 16 GB, if it were believed
        ({"set_size": 10**9}, {}, "pool.weight has no place"),
        ({"decoder_momentum": torch.zeros(2)}, {}, "is damaged"),
        ({"lr": None}, {}, "optim.lr='None'"),
        ({"lr": 0}, {}, "lr is 0, with which nothing is learned"),
        ({"decoder_lr": -1}, {}, "decoder_lr is -1, with which nothing is learned"),
        ({"seed": -1}, {}, "seed is -1: use a whole number from 0"),
        ({"seed": 1e300}, {}, "seed is 1000.*: use a whole number from 0"),
        ({}, {BIAS: torch.full((WIDTH,), torch.nan)}, "encoder.net.0.bias holds what is no finite number"),
        ({}, {BIAS: torch.zeros(WIDTH, dtype=torch.complex64)}, "encoder.net.0.bias holds what is no finite number"),
        ({}, {BIAS: torch.zeros(1).expand(10**6, 10**6)}, "mlp.0.bias is no plain tensor"),
        ({}, {BIAS: torch.eye(3).to_sparse()}, "mlp.0.bias is no plain tensor"),
        ({}, {BIAS: "x"}, "not a Lightning checkpoint of tensors"),
        ({}, {"net.alpha": torch.zeros(())}, "is damaged"),
        ({}, {"net.input_to_z.pool.weight": torch.zeros(())}, "is damaged|has no place"),
    ],
)
def test_a_damaged_checkpoint_is_refused_in_one_line(tmp_path, arguments, weights, message):
    path = save(tmp_path / "a.ckpt", COMMON | DECODER | SETS | arguments, SOUND | weights)
    with pytest.raises(UsageError, match=message) as error:
        adopt(path, tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_run_folder_is_adopted_whole_or_not_at_all(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    path = save(tmp_path / "a.ckpt", COMMON | DECODER | SETS, SOUND)
    with monkeypatch.context() as patched:
        patched.setattr("setpred.paper.authors.write_model", interrupted)
        with pytest.raises(KeyboardInterrupt):
            adopt(path, tmp_path / "run")
    assert [each.name for each in tmp_path.iterdir()] == ["a.ckpt"]
    adopt(path, tmp_path / "run")
    with pytest.raises(UsageError, match="is never overwritten"):
        adopt(path, tmp_path / "run")


def test_no_code_of_a_checkpoint_is_run(tmp_path):
    torch.save({"hyper_parameters": {}, "state_dict": {"net": nn.Linear(2, 2)}}, tmp_path / "a.ckpt")
    with pytest.raises(UsageError, match="not a Lightning checkpoint of tensors and plain values"):
        adopt(tmp_path / "a.ckpt", tmp_path / "run")

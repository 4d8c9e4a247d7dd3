import pytest
import torch
from torch import nn

from setpred.baselines import BiLSTM, DeepSets, Transformer
from setpred.baselines.set_to_set import sinusoids

rivals = pytest.mark.parametrize(
    "build",
    [
        DeepSets,
        BiLSTM,
        Transformer,
        lambda **sizes: Transformer(pe="sinusoidal", **sizes),
        lambda **sizes: Transformer(pe="both", **sizes),
    ],
    ids=["deepsets", "bilstm", "transformer", "transformer-sinusoidal", "transformer-both"],
)


def sets(batch: int = 3, n: int = 6, dim: int = 4) -> torch.Tensor:
    return torch.randn(batch, n, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@rivals
def test_a_padded_set_gets_the_answer_of_the_set_alone_whatever_the_padding_holds(build):
    torch.manual_seed(0)
    model, X = build(dim=4, out=5).double(), sets()
    mask = torch.tensor([4, 6, 1])[:, None] > torch.arange(6)
    for mode in (model.train(), model.eval()):
        with torch.no_grad():
            out = mode(X, mask)
            assert out.shape == (3, 6, 5)
            assert (out[~mask] == 0).all()
            assert torch.allclose(out, mode(X.masked_fill(~mask[..., None], 7.0), mask))
            for k, length in enumerate((4, 6, 1)):
                assert torch.allclose(out[k, :length], mode(X[k : k + 1, :length])[0])


@rivals
def test_gradients_reach_every_parameter(build):
    model = build(dim=4, out=5).double()
    model(sets()).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("build", [DeepSets, Transformer])
def test_a_set_without_elements_neither_answers_nor_poisons_the_gradients(build):
    model = build(dim=4, out=5).double()
    mask = torch.tensor([[True] * 6, [False] * 6, [True] * 6])
    out = model(sets(), mask)
    out.sum().backward()
    assert (out[1] == 0).all()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_deepsets_is_two_equivariant_layers():
    model, X = DeepSets(dim=4, out=5, hidden=7).double(), sets()
    A1, B1, A2, B2 = model.first.each, model.first.mean, model.second.each, model.second.mean
    hidden = (A1(X) + B1(X.mean(1, keepdim=True))).relu()
    assert torch.allclose(model(X), A2(hidden) + B2(hidden.mean(1, keepdim=True)))


def test_sizes_are_the_published_ones():
    assert parameters(DeepSets()) == 35_456
    # A direction of an LSTM layer has four gates, each with an input and a state matrix and two biases.
    lstm = 2 * 4 * (64 * 64 + 64 * 64 + 2 * 64) + 2 * 4 * (128 * 64 + 64 * 64 + 2 * 64)
    assert parameters(BiLSTM()) == (4 * 64 + 64) + lstm + (128 * 64 + 64) == 174_464
    assert parameters(BiLSTM(dim=8, hidden=128)) == 677_056
    reference = nn.Transformer(64, 8, 2, 2, dim_feedforward=128, batch_first=True)
    assert parameters(Transformer()) == 2 * (4 * 64 + 64) + parameters(reference) + (64 * 64 + 64)
    # Random encodings halve the affine map of the decoder and add two numbers.
    assert parameters(Transformer(pe="random")) == parameters(Transformer()) - (4 * 32 + 32) + 2


def test_no_dropout_so_training_and_evaluation_agree():
    model, X = Transformer(pe="sinusoidal").double(), sets()
    assert torch.allclose(model.train()(X), model.eval()(X))


def test_random_encoding_draws_its_own_noise_unless_given():
    model, X = Transformer(pe="random").double(), sets()
    noise = torch.randn(3, 6, model.noise_dim, dtype=torch.float64)
    assert not torch.allclose(model(X), model(X))
    assert torch.equal(model.eval()(X), model.eval()(X)), "a prediction depends on its input alone"
    model.train()
    assert torch.equal(model(X, noise=noise), model(X, noise=noise))
    with torch.no_grad():
        model.noise_mean.fill_(0.3)
        model.noise_log_scale.fill_(-1.0)
        shifted = model(X, noise=noise)
        model.noise_mean.fill_(0.0)
        model.noise_log_scale.fill_(0.0)
        assert torch.allclose(shifted, model(X, noise=0.3 + noise * torch.tensor(-1.0).exp().double()))


def test_positions_of_a_sinusoidal_encoding_all_differ_and_reach_the_decoder_only():
    assert torch.pdist(sinusoids(64, 64)).min() > 0.1
    model, X = Transformer(pe="sinusoidal").double(), sets()
    seen = {}
    model.transformer.encoder.register_forward_pre_hook(lambda _, inputs: seen.update(encoder=inputs[0]))
    model(X)
    assert torch.equal(seen["encoder"], model.source(X))


def test_positions_reach_the_encoder_where_that_is_asked_for():
    model, X = Transformer(pe="both").double(), sets()
    seen = {}
    model.transformer.encoder.register_forward_pre_hook(lambda _, inputs: seen.update(encoder=inputs[0]))
    model.transformer.decoder.register_forward_pre_hook(lambda _, inputs: seen.update(decoder=inputs[0]))
    model(X)
    positions = sinusoids(6, 64).double()
    assert torch.allclose(seen["encoder"], model.source(X) + positions)
    assert torch.allclose(seen["decoder"], model.target(X) + positions)


@rivals
@pytest.mark.parametrize(
    ("X", "mask", "message"),
    [
        (torch.zeros(2, 6, 3), None, r"takes \[batch, size, 4\]"),
        (torch.zeros(6, 4), None, r"takes \[batch, size, 4\]"),
        (torch.zeros(2, 0, 4), None, "no place for an element"),
        (torch.zeros(2, 6, 4), torch.ones(2, 5, dtype=torch.bool), r"pass \[2, 6\] torch.bool"),
        (torch.zeros(2, 6, 4), torch.ones(2, 6), r"pass \[2, 6\] torch.bool"),
    ],
)
def test_wrong_shapes_are_refused_in_one_line(build, X, mask, message):
    with pytest.raises(ValueError, match=message) as error:
        build(dim=4, out=5)(X, mask)
    assert "\n" not in str(error.value)


def test_what_a_model_cannot_use_is_refused_in_one_line():
    with pytest.raises(ValueError, match="choose one of none, random, sinusoidal"):
        Transformer(pe="learned")
    with pytest.raises(ValueError, match="even multiple of heads=8"):
        Transformer(width=20)
    with pytest.raises(ValueError, match='build the Transformer with pe="random"'):
        Transformer()(torch.zeros(1, 2, 4), noise=torch.zeros(1, 2, 32))
    with pytest.raises(ValueError, match=r"pass \[1, 2, 32\]"):
        Transformer(pe="random")(torch.zeros(1, 2, 4), noise=torch.zeros(1, 2, 4))
    with pytest.raises(ValueError, match="padding at the end"):
        BiLSTM()(torch.zeros(1, 2, 4), torch.tensor([[False, True]]))
    with pytest.raises(ValueError, match="at least one in each"):
        BiLSTM()(torch.zeros(1, 2, 4), torch.tensor([[False, False]]))

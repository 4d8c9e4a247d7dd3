"""Slot Attention and Slot MLP: published sizes, equivariance in the slots, the three losses."""

import pytest
import torch
from torch import nn

from setpred import equivariance, hungarian_loss
from setpred.baselines import SlotAttention, SlotMLP, slot_loss
from setpred.baselines.slot_attention import SameConvolution, place_grid


def images(batch: int = 3, size: int = 16) -> torch.Tensor:
    return torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def small(**sizes) -> SlotAttention:
    return SlotAttention(**{"size": 5, "dim": 7, "width": 8, "hidden": 12, **sizes}).double()


def small_mlp() -> SlotMLP:
    return SlotMLP(image_size=16, size=5, dim=7, width=8, hidden=12).double()


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_slot_attention_is_set_equivariant_in_its_initial_slots():
    model = small().eval()
    features = model.features(images(1)).detach()

    def from_slots(slots: torch.Tensor) -> torch.Tensor:
        return model.head(model.attention(features.expand(len(slots), -1, -1), slots)[-1])

    assert equivariance.check(from_slots, size=5, dim=8).set_equivariant


def test_equal_slots_stay_equal_and_noise_tells_them_apart():
    model = small().eval()
    same = model(images(), noise=torch.ones(5, 8))
    assert torch.allclose(same, same[:, :1].expand_as(same))
    assert (model(images()) - model(images())[:, :1])[:, 1:].abs().amax(-1).min() > 1e-6


def test_all_places_are_shared_out_and_a_slot_takes_a_mean():
    rounds = small(iterations=1).attention
    features, slots = torch.randn(2, 9, 8).double(), torch.randn(2, 5, 8).double()
    constant = features[:, :1].expand_as(features)
    seen = []
    rounds.gru.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    rounds(constant, slots)
    mean = rounds.value(rounds.norm_features(constant))[:, :1]
    assert torch.allclose(seen[0].view(2, 5, 8), mean.expand(2, 5, 8))
    # Which places come first does not matter.
    assert torch.allclose(rounds(features, slots), rounds(features.flip(1), slots))


def test_where_a_thing_is_matters_to_slot_attention():
    # Every place has the same features; only the position grid can tell them apart.
    model = small().eval()
    for layer in model.convolutions.net[::2]:
        nn.init.zeros_(layer.weight)
    features = model.features(images())
    assert torch.pdist(features[0].detach()).min() > 1e-3


def test_what_is_in_the_image_is_seen_from_the_start():
    # With torch's own start the image is a twentieth of the position grid, and slots learn slowly what is there.
    model, picture = SlotAttention(), torch.rand(4, 3, 32, 32)
    maps = model.convolutions(picture).flatten(2)
    assert maps.std(dim=(0, 2)).mean() > 0.1 * model.place(place_grid(8, 8)).std(dim=0).mean()


def test_every_iteration_ends_with_the_prediction():
    model = small(iterations=4).eval()
    rounds = model(images(), every_iteration=True)
    assert rounds.shape == (4, 3, 5, 7)
    assert torch.equal(rounds[-1], model(images()))
    assert torch.allclose(rounds[0], small_copy(model, 1)(images()))


def small_copy(model: SlotAttention, iterations: int) -> SlotAttention:
    copy = small(iterations=iterations).eval()
    copy.load_state_dict(model.state_dict())
    return copy


def test_noise_is_fresh_in_training_and_fixed_in_evaluation():
    model = small()
    assert not torch.allclose(model(images()), model(images()))
    model.eval()
    assert torch.equal(model(images()), model(images()))
    assert torch.allclose(model(images())[1:2], model(images()[1:2]))
    noise = torch.randn(3, 5, 8)
    assert torch.equal(model(images(), noise), model(images(), noise))
    assert not torch.allclose(model(images(), noise), model(images()))


@pytest.mark.parametrize("build", [small, small_mlp])
def test_coordinates_reach_from_minus_one_to_one_and_the_rest_from_zero_to_one(build):
    model = build().eval()
    last = model.head.net[2]
    for bias, low, high in ((-50.0, -1.0, 0.0), (50.0, 1.0, 1.0)):
        nn.init.constant_(last.bias, bias)
        sets = model(images())
        assert torch.allclose(sets[..., :3], torch.tensor(low).double(), atol=1e-6)
        assert torch.allclose(sets[..., 3:], torch.tensor(high).double(), atol=1e-6)


@pytest.mark.parametrize("build", [small, small_mlp, lambda: small(implicit=True)])
def test_gradients_reach_every_parameter(build):
    model = build()
    slot_loss(model(images()), torch.rand(3, 5, 7).double()).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_sizes_are_the_published_ones():
    convolutions = (3 * 25 * 64 + 64) + 3 * (64 * 25 * 64 + 64)
    norms, head = 2 * 64, (64 * 64 + 64) + (64 * 19 + 19)
    features = convolutions + (4 * 64 + 64) + norms + 2 * (64 * 64 + 64)
    gru = 3 * (64 * 64 + 64 * 64 + 2 * 64)
    slots = 2 * 64 + 3 * norms + 3 * 64 * 64 + gru + (64 * 128 + 128) + (128 * 64 + 64)
    assert parameters(SlotAttention()) == features + slots + head
    mlp = (64 * 32 * 32 * 512 + 512) + (512 * 512 + 512) + (512 * 640 + 640)
    with torch.device("meta"):
        assert parameters(SlotMLP()) == convolutions + mlp + head
    with torch.no_grad():
        assert SlotAttention().features(torch.rand(1, 3, 128, 128)).shape == (1, 32 * 32, 64)


def test_the_loss_weighs_coordinates_by_their_range():
    target = torch.tensor([0.0] * 6 + [1.0]).expand(1, 2, 7)
    prediction = target.clone()
    prediction[..., 1], prediction[..., 5] = 0.2, 0.4
    for length in (1.0, 2.0, 6.0):
        of_one_slot = ((0.2 * length / 2) ** 2 / 2 + 0.4**2 / 2) / 7
        assert slot_loss(prediction, target, coordinate_range=length).item() == pytest.approx(2 * of_one_slot)
    # At [-1, 1] coordinates count as they do for iDSPN.
    prediction, target = torch.randn(4, 5, 7), torch.randn(4, 5, 7)
    assert torch.allclose(slot_loss(prediction, target, coordinate_range=2.0), 5 * hungarian_loss(prediction, target))


def test_an_absent_element_is_at_the_corner_where_published_coordinates_are_zero():
    target = torch.zeros(1, 2, 7)
    corner = torch.tensor([-1.0] * 3 + [0.0] * 4).expand(1, 2, 7)
    assert slot_loss(corner, target).item() == 0
    assert slot_loss(target, target).item() == pytest.approx(2 * 3 * 0.5**2 / 2 / 7)


def test_the_loss_over_iterations_is_the_mean_of_each_with_its_own_match():
    rounds, target = torch.randn(3, 4, 5, 7), torch.randn(4, 5, 7)
    each = torch.stack([slot_loss(sets, target, coordinate_range=6.0) for sets in rounds])
    assert torch.allclose(slot_loss(rounds, target, coordinate_range=6.0), each.mean(0))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pixels", [7, 8])
def test_padding_is_that_of_tensorflow(stride, pixels):
    # SAME: ceil(pixels / stride) outputs, the padding in halves, an odd pixel of it after the image.
    outputs = -(-pixels // stride)
    before = ((outputs - 1) * stride + 5 - pixels) // 2
    layer = SameConvolution(1, 1, kernel_size=5, stride=stride, bias=False).double()
    image = torch.randn(1, 1, pixels, pixels).double()
    found = layer(image)[0, 0]
    assert found.shape == (outputs, outputs)
    for row, column in ((0, 0), (0, outputs - 1), (outputs - 1, outputs - 1), (1, 2)):
        seen = 0.0
        for i in range(5):
            for j in range(5):
                y, x = row * stride + i - before, column * stride + j - before
                if 0 <= y < pixels and 0 <= x < pixels:
                    seen += (layer.weight[0, 0, i, j] * image[0, 0, y, x]).item()
        assert found[row, column].item() == pytest.approx(seen)


def test_the_state_of_the_gru_starts_as_in_keras():
    gru = SlotAttention().attention.gru
    assert torch.allclose(gru.weight_hh.mT @ gru.weight_hh, torch.eye(64), atol=1e-5)
    limit = (6 / (64 + 3 * 64)) ** 0.5
    assert 0.99 * limit < gru.weight_ih.abs().max() <= limit


def test_an_implicit_gradient_is_that_of_the_last_round():
    unrolled, implicit = small(iterations=3), small(iterations=3, implicit=True)
    implicit.load_state_dict(unrolled.state_dict())
    features, start = torch.randn(2, 9, 8).double(), torch.randn(2, 5, 8).double().requires_grad_()
    assert torch.equal(implicit.attention(features, start), unrolled.attention(features, start))
    before = unrolled.attention(features, start)[-2].detach().requires_grad_()
    alone = small_copy(unrolled, 1).attention
    weights = torch.randn(2, 5, 8).double()
    (wanted,) = torch.autograd.grad((alone(features, before)[-1] * weights).sum(), before)
    (found,) = torch.autograd.grad((implicit.attention(features, start)[-1] * weights).sum(), start)
    assert torch.allclose(found, wanted)
    (through,) = torch.autograd.grad((unrolled.attention(features, start)[-1] * weights).sum(), start)
    assert not torch.allclose(through, wanted)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: small()(images(), noise=torch.zeros(4, 8)), r"pass \[3, 5, 8\] or \[5, 8\]"),
        (lambda: small()(torch.zeros(2, 16, 16, 3)), r"permute\(0, 3, 1, 2\)"),
        (lambda: small_mlp()(images(size=20)), r"pass \[batch, 3, 16, 16\]"),
        (lambda: SlotMLP(image_size=30), "multiple of 4 pixels"),
        (lambda: SlotAttention(coordinates=20), "use 0 to 19"),
        (lambda: SlotAttention(iterations=0), "each must be at least 1"),
    ],
)
def test_wrong_arguments_get_one_line(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)

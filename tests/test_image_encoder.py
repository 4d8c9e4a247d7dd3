"""The image encoder: its sizes, public weights, what it answers to wrong images."""

import pytest
import torch
from torch import nn

from setpred.image_encoder import IMAGENET_MEAN, IMAGENET_STD, ImageEncoder, ResNet18


def published_shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes in the public files of ResNet-18, without the classifier."""
    shapes: dict[str, tuple[int, ...]] = {}

    def conv(name: str, *shape: int) -> None:
        shapes[f"{name}.weight"] = shape

    def norm(name: str, channels: int) -> None:
        for part in ("weight", "bias", "running_mean", "running_var"):
            shapes[f"{name}.{part}"] = (channels,)
        shapes[f"{name}.num_batches_tracked"] = ()

    conv("conv1", 64, 3, 7, 7)
    norm("bn1", 64)
    widths = {0: 64, 1: 64, 2: 128, 3: 256, 4: 512}
    for layer in range(1, 5):
        before, width = widths[layer - 1], widths[layer]
        for block in range(2):
            name = f"layer{layer}.{block}"
            conv(f"{name}.conv1", width, width if block else before, 3, 3)
            norm(f"{name}.bn1", width)
            conv(f"{name}.conv2", width, width, 3, 3)
            norm(f"{name}.bn2", width)
            if layer > 1 and block == 0:
                conv(f"{name}.downsample.0", width, before, 1, 1)
                norm(f"{name}.downsample.1", width)
    return shapes


def public_weights() -> dict[str, torch.Tensor]:
    state = {name: (0.01 if len(shape) > 1 else 1) * torch.rand(shape) for name, shape in published_shapes().items()}
    return state | {"fc.weight": torch.rand(1000, 512), "fc.bias": torch.rand(1000)}


def test_names_and_shapes_are_those_of_public_weights():
    own = {name: tuple(value.shape) for name, value in ResNet18().state_dict().items()}
    assert own == published_shapes()
    assert len(own) == 120
    # The published count is 11,689,512 with the classifier.
    assert sum(p.numel() for p in ResNet18().parameters()) == 11_689_512 - (512 * 1000 + 1000)


def test_strides_are_where_public_weights_expect_them():
    strides = {name: m.stride[0] for name, m in ResNet18().named_modules() if isinstance(m, nn.Conv2d)}
    reduced = {f"layer{k}.0.{part}" for k in (2, 3, 4) for part in ("conv1", "downsample.0")}
    assert {name for name, stride in strides.items() if stride == 2} == reduced | {"conv1"}


def test_public_weights_replace_the_network_and_normalise_its_images():
    encoder, state = ImageEncoder(latent=8, size=64).eval(), public_weights()
    encoder.load_resnet18(state)
    assert all(torch.equal(value, state[name].to(value.dtype)) for name, value in encoder.resnet.state_dict().items())
    grey = torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1).expand(1, 3, 64, 64)
    seen = []
    encoder.resnet.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    encoder(grey)
    encoder(grey + torch.tensor(IMAGENET_STD).view(3, 1, 1))
    assert torch.allclose(seen[0], torch.zeros(1), atol=1e-6)
    assert torch.allclose(seen[1], torch.ones(1), atol=1e-6)
    again = ImageEncoder(latent=8, size=64).eval()
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(again(grey), encoder(grey))


def test_files_that_do_not_count_batches_load():
    state = {name: value for name, value in public_weights().items() if "num_batches" not in name}
    ImageEncoder(latent=8, size=64).load_resnet18(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("layer3.1.conv2.weight"), r"lack 'layer3.1.conv2.weight' \(1 such\)"),
        (lambda s: s.update({"layer1.2.conv1.weight": torch.zeros(1)}), "unknown 'layer1.2.conv1.weight'"),
        (lambda s: s.update({"conv1.weight": torch.zeros(64, 1, 7, 7)}), "another shape of 'conv1.weight'"),
    ],
)
def test_other_weights_are_refused_and_change_nothing(change, message):
    encoder, state = ImageEncoder(latent=8, size=64), public_weights()
    change(state)
    before = encoder.resnet.conv1.weight.clone()
    with pytest.raises(ValueError, match=message) as error:
        encoder.load_resnet18(state)
    assert "\n" not in str(error.value)
    assert torch.equal(encoder.resnet.conv1.weight, before)
    assert encoder.mean.eq(0).all()


@pytest.mark.parametrize(("size", "channels"), [(64, 512), (128, 128), (256, 32)])
def test_the_latent_numbers_are_shared_out_over_the_places(size, channels):
    encoder = ImageEncoder(latent=512, size=size).eval()
    with torch.no_grad():
        assert encoder(torch.rand(1, 3, size, size)).shape == (1, 512)
    assert encoder.project.weight.shape == (channels, 512, 2, 2)


def test_every_pixel_and_every_parameter_has_a_part_in_the_answer():
    encoder = ImageEncoder(latent=16, size=64)
    images = torch.rand(4, 3, 64, 64, requires_grad=True)
    encoder(images).square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.abs().sum() > 0 for p in encoder.parameters())
    assert (images.grad.abs().sum(dim=(0, 1)) > 0).all()


def test_an_image_gets_the_same_answer_alone_and_in_any_memory_layout():
    encoder, images = ImageEncoder(latent=8, size=64).double().eval(), torch.rand(3, 3, 64, 64).double()
    with torch.no_grad():
        together = encoder(images)
        assert torch.allclose(together[1:2], encoder(images[1:2]))
        assert torch.allclose(together, encoder(images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)))


def test_weights_are_contiguous_as_safetensors_wants_them():
    assert all(value.is_contiguous() for value in ImageEncoder(latent=8, size=64).state_dict().values())


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(2, 64, 64, 3), r"permute\(0, 3, 1, 2\)"),
        (torch.zeros(3, 64, 64), r"unsqueeze\(0\)"),
        (torch.zeros(2, 3, 96, 64), r"pass \[batch, 3, 64, 64\]: resize them, or build the encoder for their size"),
        (torch.zeros(2, 1, 64, 64), r"pass \[batch, 3, 64, 64\]"),
        (torch.zeros(2, 3, 64, 64, dtype=torch.uint8), r"images.float\(\) / 255"),
        (torch.full((2, 3, 64, 64), 200.0), "from 200 to 200: pass .* bytes divided by 255"),
        (torch.full((2, 3, 64, 64), torch.nan), "from nan to nan"),
    ],
)
def test_wrong_images_get_one_line(images, message):
    with pytest.raises(ValueError, match=message) as error:
        ImageEncoder(latent=8, size=64)(images)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("size", "filled"), [(48, (64, 64)), (100, (128, 128)), ((96, 40), (64, 128)), (192, (192, 192))]
)
def test_images_of_any_size_are_filled_up_with_zeros(size, filled):
    encoder = ImageEncoder(latent=20, size=size, width=4).eval()
    width, height = (size, size) if isinstance(size, int) else size
    images = torch.rand(2, 3, height, width)
    larger = ImageEncoder(latent=20, size=(filled[1], filled[0]), width=4).eval()
    larger.load_state_dict(encoder.state_dict())
    with torch.no_grad():
        vectors = encoder(images)
        assert vectors.shape == (2, 20)
        black = torch.zeros(2, 3, *filled)
        black[:, :, :height, :width] = images
        assert torch.allclose(vectors, larger(black))


def test_an_encoder_of_any_size_is_saved_and_loaded(tmp_path):
    encoder = ImageEncoder(latent=8, size=(70, 30), width=4).eval()
    loaded = ImageEncoder.from_pretrained(encoder.save_pretrained(tmp_path))
    images = torch.rand(1, 3, 30, 70)
    with torch.no_grad():
        assert torch.equal(encoder(images), loaded(images))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "size is 0: give the pixels of a side, or width and height"),
        ({"size": (64, 64, 3)}, "give the pixels of a side, or width and height"),
        ({"latent": 8, "size": 192}, "images of 192×192 pixels have 9 places: raise it"),
        ({"width": 0}, "width is 0"),
    ],
)
def test_sizes_that_make_no_encoder_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ImageEncoder(**arguments)


def test_a_quarter_of_the_width_is_a_sixteenth_of_the_weights():
    counts = [sum(p.numel() for p in ResNet18(width).parameters()) for width in (16, 64)]
    assert counts[1] / counts[0] == pytest.approx(16, rel=0.02)
    assert ImageEncoder(latent=32, size=64, width=4)(torch.rand(2, 3, 64, 64)).shape == (2, 32)

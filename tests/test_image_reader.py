"""The reader of images: any size and shape, learns fast, counts right, and knows what is strange to it."""

import pytest
import torch

import setpred as sp
from setpred.trunks import beside_grid, see

SCHEMA = sp.Schema({"at": sp.Real(2, range=(0, 32)), "colour": sp.Category("red", "blue")}, size=3)


def squares(count, seed):
    """Images of red and blue squares on grey, their sets and masks."""
    generator = torch.Generator().manual_seed(seed)

    def draw(high):
        return int(torch.randint(high, (), generator=generator))

    images, objects = torch.full((count, 3, 32, 48), 0.5), []
    for image in images:
        things = []
        for column in torch.randperm(3, generator=generator)[: draw(4)].tolist():
            x, y, red = 16 * column + draw(9), draw(25), draw(2)
            image[:, y : y + 7, x : x + 7] = torch.tensor([1.0, 0, 0] if red else [0, 0, 1.0])[:, None, None]
            things.append({"at": [(x + 3.5) * 2 / 3, y + 3.5], "colour": "red" if red else "blue"})
        objects.append(things)
    return images, *SCHEMA.encode_batch(objects)


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    reader = sp.ImageReader(SCHEMA, width=8, patch=2)
    images, sets, mask = squares(512, seed=0)
    reader.fit_places(images, sets, mask)
    steps = 150
    optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    for _ in range(steps):
        some = torch.randint(len(images), (32,))
        optimizer.zero_grad()
        reader.loss(images[some], sets[some], mask[some]).backward()
        optimizer.step()
        schedule.step()
    reader.calibrate([(images, sets, mask)])
    return reader.eval()


def test_it_learns_within_seconds(trained):
    images, sets, mask = squares(200, seed=1)
    predictor = sp.SetPredictor(trained, None, SCHEMA)
    found = predictor.predict(images)
    counted = [len(objects) for objects in found]
    assert torch.tensor(counted).eq(mask.sum(1)).float().mean() > 0.9
    metric = sp.SetAveragePrecision(SCHEMA, thresholds=(2.0,))
    metric.update(trained(images), sets)
    assert metric.compute()["ap_2"] > 0.9


def test_what_it_never_saw_is_strange(trained):
    assert (trained.strangeness(squares(100, seed=2)[0]) > 1).float().mean() < 0.1
    assert trained.strangeness(torch.rand(5, 3, 32, 48)).min() > 1
    assert trained.strangeness(torch.zeros(1, 3, 32, 48)) > 1


def test_it_is_saved_with_what_it_measured(trained, tmp_path):
    loaded = sp.ImageReader.from_pretrained(trained.save_pretrained(tmp_path / "reader"))
    images = squares(4, seed=3)[0]
    assert torch.equal(loaded(images), trained(images))
    assert loaded.apart == trained.apart > 0


@pytest.mark.parametrize("shape", [(32, 32), (17, 61), (5, 3), (128, 192), (1, 1)])
@pytest.mark.parametrize("patch", [2, 4])
def test_any_size_and_shape(shape, patch):
    reader = sp.ImageReader(SCHEMA, width=4, patch=patch).eval()
    assert reader(torch.rand(2, 3, *shape)).shape == (2, 3, SCHEMA.dim)


@pytest.mark.parametrize("presence", [True, False])
def test_schemas_without_presence_or_position(presence):
    schema = sp.Schema({"kind": sp.Category("a", "b")}, size=2, presence=presence)
    reader = sp.ImageReader(schema, width=4, patch=2)
    images, (sets, mask) = torch.rand(4, 3, 16, 16), schema.encode_batch([[{"kind": "a"}, {"kind": "b"}]] * 4)
    reader.fit_places(images, sets, mask)
    reader.loss(images, sets, mask).backward()
    reader.calibrate([(images, sets, mask)])
    assert reader(images).shape == (4, 2, schema.dim)


def test_an_image_without_objects_teaches_absence():
    reader = sp.ImageReader(SCHEMA, width=4, patch=2)
    loss = reader.loss(torch.rand(2, 3, 16, 16), torch.zeros(2, 3, SCHEMA.dim))
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in reader.parameters() if p.grad is not None)


def test_coarse_numbers_hardly_change_the_loss():
    torch.manual_seed(0)
    reader = sp.ImageReader(SCHEMA, width=16, patch=2).train()
    images, sets, mask = squares(32, seed=4)
    fast = reader.loss(images, sets, mask)
    exact = reader.double().loss(images.double(), sets.double(), mask)  # float64 is never autocast
    assert fast.item() == pytest.approx(exact.item(), rel=0.02)


def test_a_convolution_beside_a_grid_is_that_of_features_and_grid_together():
    convolution = torch.nn.Conv2d(7, 4, kernel_size=3, stride=2, padding=1)
    features, grid = torch.randn(3, 5, 6, 9), torch.randn(2, 6, 9)
    together = convolution(torch.cat([features, grid.expand(3, -1, -1, -1)], dim=1))
    assert torch.allclose(beside_grid(convolution, features, grid), together, atol=1e-5)


@pytest.mark.parametrize("size", [(33, 48), (64, 40)])
def test_the_map_of_a_resnet_has_a_place_every_eight_pixels(size):
    reader = sp.ImageReader(SCHEMA, width=4, resnet=True).eval()
    features, _ = see(reader.trunk, torch.rand(2, 3, *size))
    assert features.shape[2:] == (-(-size[0] // 8), -(-size[1] // 8))
    assert reader(torch.rand(2, 3, *size)).shape == (2, 3, SCHEMA.dim)
    assert reader.strangeness(torch.rand(2, 3, *size)).shape == (2,)


def test_a_reader_without_a_resnet_takes_no_public_weights():
    with pytest.raises(ValueError, match="resnet=True, width=64"):
        sp.ImageReader(SCHEMA, width=4).load_resnet18({})
    with pytest.raises(ValueError, match="leave it at 4"):
        sp.ImageReader(SCHEMA, width=4, patch=2, resnet=True)

"""Images that are changed in training keep their objects where they show them."""

import pytest
import torch

from setpred.data.clevr import CLEVR_SCHEMA
from setpred.data.scenes import Scenes, studio
from setpred.schema import Category, Count, Flag, Real, Schema
from setpred.tasks.augmentation import brightened, can_move, mirrored, moved


def test_images_are_moved_with_their_places():
    schema = Schema({"at": Real(2, pixels=True), "kind": Category("a", "b")}, size=2)
    images, places = torch.zeros(64, 3, 24, 32), torch.rand(64, 2) * torch.tensor([31.0, 23.0])
    for image, (x, y) in zip(images, places.long(), strict=True):
        image[:, y, x] = 1
    own = schema.in_pixels(1 / 32)
    sets, mask = own.encode_batch([[{"at": [int(x) + 0.5, int(y) + 0.5], "kind": "a"}] for x, y in places])
    torch.manual_seed(0)
    after, elements = moved(schema, images, sets, mask)
    assert not torch.equal(after, images)
    assert torch.equal(elements[:, 1], sets[:, 1])
    for image, rows in zip(after, elements, strict=True):
        x, y = own.decode(rows)[0]["at"]
        assert image[0, int(y), int(x)] == 1


def test_boxes_stay_inside_when_images_are_moved():
    schema = Schema({"box": Real(4, pixels=True)}, size=1)
    boxes = [[{"box": [16, 12, 32, 4]}], [{"box": [8, 20, 4, 6]}], []]
    sets, mask = schema.in_pixels(1 / 32).encode_batch(boxes)
    for seed in range(20):
        torch.manual_seed(seed)
        _, after = moved(schema, torch.rand(3, 3, 24, 32), sets, mask)
        for rows, (width, height) in zip(after[:2], ((32, 4), (4, 6)), strict=True):
            box = schema.in_pixels(1 / 32).decode(rows)[0]["box"]
            assert box[2:] == pytest.approx([width, height], rel=1e-4)
            assert box[0] - width / 2 >= -1e-3
            assert box[0] + width / 2 <= 32 + 1e-3
            assert box[1] + height / 2 <= 24 + 1e-3
        assert torch.equal(after[2], sets[2])


@pytest.mark.parametrize(
    ("fields", "can"),
    [
        ({"at": Real(2, pixels=True), "kind": Category("a", "b"), "old": Flag()}, True),
        ({"at": Real(2, pixels=True), "to": Real(2, pixels=True)}, False),
        ({"at": Real(2, pixels=True), "column": Count(64)}, False),
        ({"at": Real(2, range=(0, 64))}, False),
        ({"kind": Category("a", "b")}, False),
    ],
)
def test_images_are_moved_only_where_no_other_number_could_be_a_place(fields, can):
    assert can_move(Schema(fields, size=2)) == can


def test_a_mirror_twice_is_no_mirror():
    images, sets = torch.rand(3, 3, 8, 12), torch.rand(3, 10, 19)
    all_of_them = torch.ones(3, dtype=torch.bool)
    once = mirrored(images, sets, all_of_them)
    again = mirrored(*once, all_of_them)
    assert torch.equal(again[0], images)
    assert torch.allclose(again[1], sets, atol=1e-6)
    assert torch.equal(mirrored(images, sets, ~all_of_them)[1], sets)


def test_mirrored_objects_are_seen_on_the_other_side():
    image, sets, mask = Scenes(size=(48, 32), seed=5)[0]
    _, turned = mirrored(image[None], sets[None], torch.tensor([True]))
    seen = [studio.project(CLEVR_SCHEMA.position(s)[mask].numpy()) for s in (sets, turned[0])]
    assert seen[0][:, 0] + seen[1][:, 0] == pytest.approx(studio.WIDTH, abs=1e-2)
    assert seen[0][:, 1] == pytest.approx(seen[1][:, 1], abs=1e-2)


def test_each_image_is_brighter_or_darker_as_a_whole_by_a_fifth_at_most():
    images = torch.rand(64, 3, 4, 5) + 0.1
    light = brightened(images) / images
    assert torch.allclose(light, light[:, :1, :1, :1].expand_as(light), rtol=1e-5)
    assert 0.8 <= light.min() < 0.9
    assert 1.1 < light.max() <= 1.2

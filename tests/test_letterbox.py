"""Images of any shape on a canvas of one shape, and places in the pixels of their files."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from setpred.data.inputs import Inputs, image_size
from setpred.data.inspection import inspect
from setpred.data.jsonl_folder import open_folder
from setpred.data.records import DataError
from setpred.letterbox import pixel_on, shared_canvas
from setpred.schema import Category, Real, Schema

SHAPES = [(48, 32), (480, 320), (200, 400), (90, 90)]


def dot_at(place, size, radius=0.04):
    """A white dot on black."""
    width, height = size
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    near = (x - place[0]) ** 2 + (y - place[1]) ** 2 < (radius * max(size)) ** 2
    return Image.fromarray(np.repeat(np.uint8(255 * near)[..., None], 3, axis=2))


def write(root, examples, schema=None):
    """A folder of images with one dot each, of which `examples` are the sizes and places."""
    lines = []
    for i, (size, place) in enumerate(examples):
        dot_at(place, size).save(root / f"{i}.png")
        lines.append(json.dumps({"image": f"{i}.png", "objects": [{"at": list(place)}]}))
    for name in ("train", "val"):
        (root / f"{name}.jsonl").write_text("\n".join(lines))
    if schema is not None:
        (root / "schema.yaml").write_text(schema)
    return root


def centre(image):
    """Where the white of a canvas is, in fractions of its longer side."""
    light = image.mean(0)
    y, x = (torch.arange(side) + 0.5 for side in light.shape)
    total = light.sum()
    place = torch.stack([(light.sum(0) * x).sum(), (light.sum(1) * y).sum()]) / total
    return (place / max(light.shape)).tolist()


def test_places_lie_where_the_image_shows_them_whatever_its_shape(tmp_path):
    examples = [
        (size, (size[0] * across, size[1] * down)) for size in SHAPES for across, down in [(0.2, 0.7), (0.8, 0.3)]
    ]
    folder = open_folder(write(tmp_path, examples))
    assert folder.schema.fields == {"at": Real(2, pixels=True)}
    assert folder.inputs.shape == (3, 128, 128)
    for i, (size, place) in enumerate(examples):
        image, sets, _, read = folder.train.read(i)
        assert read == size
        assert folder.schema.position(sets)[0].tolist() == pytest.approx(centre(image), abs=0.01)
        own = folder.schema.in_pixels(pixel_on(folder.inputs.canvas, size))
        assert own.decode(sets)[0]["at"] == pytest.approx(place, rel=1e-4)


def test_an_image_keeps_its_aspect_and_its_corner(tmp_path):
    Image.new("RGB", (40, 20), "white").save(tmp_path / "a.png")
    image, size = Inputs("image", 3, 16, 16).read_image(tmp_path / "a.png")
    assert size == (40, 20)
    assert (image[:, :8] == 1).all()
    assert not image[:, 8:].any()


def test_without_a_height_images_are_stretched_as_they_were(tmp_path):
    Image.new("RGB", (40, 20), "white").save(tmp_path / "a.png")
    image, size = Inputs("image", 3, 16).read_image(tmp_path / "a.png")
    assert (image.shape, size) == ((3, 16, 16), (16, 16))
    assert (image == 1).all()


@pytest.mark.parametrize(
    ("sizes", "canvas"),
    [([(300, 200), (60, 40)], (96, 64)), ([(20, 30)], (64, 96)), (SHAPES, (96, 96)), ([(1000, 1)], (96, 1))],
)
def test_the_canvas_is_as_small_as_all_images_allow(sizes, canvas):
    assert shared_canvas(96, sizes) == canvas


@pytest.mark.parametrize("kind", ["jpg", "png", "webp"])
def test_a_photo_that_lies_on_its_side_is_turned_before_its_places_are_read(tmp_path, kind):
    held = Image.Exif()
    held[0x0112] = 6  # turned to the right when shown
    seen = dot_at((30, 100), (80, 160))
    seen.rotate(90, expand=True).save(tmp_path / f"a.{kind}", exif=held)
    assert image_size(tmp_path / f"a.{kind}") == (80, 160)
    image, size = Inputs("image", 3, 64, 64).read_image(tmp_path / f"a.{kind}")
    assert size == (80, 160)
    assert centre(image) == pytest.approx([30 / 160, 100 / 160], abs=0.02)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "I;16", "1"])
def test_images_of_every_mode_are_put_on_the_canvas(tmp_path, mode):
    grey = np.asarray(dot_at((10, 6), (24, 12)).convert("L"))
    image = Image.fromarray(grey.astype(np.uint16) * 257) if mode == "I;16" else Image.fromarray(grey).convert(mode)
    image.save(tmp_path / "a.png")
    seen, size = Inputs("image", 3, 48, 48).read_image(tmp_path / "a.png")
    assert size == (24, 12)
    assert seen.shape == (3, 48, 48)
    assert seen[:, 12, 20].tolist() == pytest.approx([1, 1, 1], abs=0.05)


def test_pixels_are_told_from_fractions_and_from_corners(tmp_path):
    rng, lines = np.random.default_rng(0), []
    Image.new("RGB", (200, 100)).save(tmp_path / "a.png")
    for _ in range(30):
        low = rng.uniform(0, 50, 2)
        high = low + rng.uniform(5, 50, 2)
        middle, sides = (low + high) / 2, high - low
        thing = {
            "at": middle.tolist(),
            "box": [*middle, *sides],
            "corners": [*low, *high],
            "part": (middle / [200, 100]).tolist(),
            "far": (middle + 60).tolist(),
        }
        lines.append(json.dumps({"image": "a.png", "objects": [thing]}))
    for name in ("train", "val"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    schema = inspect(tmp_path).schema
    assert schema.pixel_fields == ["at", "box"]
    assert [schema.fields[name].dim for name in ("at", "box")] == [2, 4]


def test_a_place_outside_its_image_is_told_in_pixels(tmp_path):
    schema = "size: 1\npresence: true\nfields:\n  at: {type: real, dim: 2, pixels: true}\n"
    root = write(tmp_path, [((60, 40), (50, 20)), ((40, 60), (50, 20)), ((60, 40), (50, 45))], schema)
    with pytest.raises(DataError) as caught:
        open_folder(root)
    assert caught.value.count == 4  # two lines of two files
    text = "object 0, field 'at': [50, 20] is not in the image of 40×60 pixels: correct it, or leave pixels out"
    assert f"train.jsonl line 2: {text}" in str(caught.value)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("{type: real, dim: 3, pixels: true}", "dim is 3"),
        ("{type: real, dim: 2, pixels: true, range: [0, 9]}", "leave range and scale out"),
        ("{type: real, dim: 2, pixels: 7}", "use true or false"),
    ],
)
def test_a_wrong_field_in_pixels_gets_one_line(tmp_path, field, message):
    root = write(tmp_path, [((60, 40), (50, 20))], f"size: 1\nfields:\n  at: {field}\n")
    with pytest.raises(DataError, match=message) as caught:
        open_folder(root)
    assert "\n" not in str(caught.value)


def test_a_schema_in_pixels_survives_its_file_and_reads_in_fractions_without_an_image():
    schema = Schema({"box": Real(4, pixels=True), "kind": Category("cat", "dog")}, size=2)
    assert Schema.from_dict(schema.to_dict()) == schema
    sets = schema.encode([{"box": [0.5, 0.25, 1.0, 0.5], "kind": "dog"}])
    assert sets[0, :4].tolist() == [0.0, -0.5, 1.0, 0.0]
    assert schema.in_pixels(1 / 200).decode(sets)[0]["box"] == pytest.approx([100, 50, 200, 100])

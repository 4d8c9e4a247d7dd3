import json
import os
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from setpred.data.clevr import CLEVR, CLEVR_SCHEMA
from setpred.data.scenes import write

BLENDER = Path(os.environ.get("SETPRED_CLEVR_BLENDER", Path(__file__).parents[3] / "shared" / "clevr-blender"))
needs_blender = pytest.mark.skipif(
    not BLENDER.is_dir(),
    reason="the Blender scenes are not on this machine: set SETPRED_CLEVR_BLENDER to their folder",
)


@pytest.fixture
def root(tmp_path):
    return write(tmp_path / "clevr", 4, size=12, seed=1)


def edit(root, change):
    """Change the list of scenes in place."""
    path = root / "scenes" / "CLEVR_train_scenes.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def first_image(root):
    return root / "images" / "train" / "CLEVR_train_000000.png"


def test_an_object_is_nineteen_numbers_in_the_papers_order():
    thing = {
        "3d_coords": [3.0, -1.5, 0.7],
        "material": "metal",
        "color": "blue",
        "shape": "cube",
        "size": "small",
        "rotation": 12.0,
    }
    elements = CLEVR_SCHEMA.encode([thing])
    assert elements.shape == (10, 19)
    expected = [1, -0.5, 0.7 / 3, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1]
    torch.testing.assert_close(elements[0], torch.tensor(expected))
    assert elements[1:].abs().sum() == 0


def test_an_example_is_an_image_a_set_and_a_mask(root):
    data = CLEVR(root, "train", size=20)
    image, sets, mask = data[2]
    assert len(data) == 4
    assert (image.shape, image.dtype) == ((3, 20, 20), torch.float32)
    assert 0 <= image.min() < image.max() <= 1
    assert (sets.shape, mask.dtype) == ((10, 19), torch.bool)
    assert torch.equal(mask, sets[:, -1] == 1)
    assert sets[~mask].abs().sum() == 0
    with pytest.raises(IndexError):
        data[4]


def test_images_of_any_shape_and_mode_become_square_colour(root):
    Image.new("L", (30, 20), 51).save(first_image(root))
    image = CLEVR(root, size=8)[0][0]
    torch.testing.assert_close(image, torch.full((3, 8, 8), 0.2))


def test_sets_need_no_images_and_images_are_read_when_asked_for(root):
    for path in (root / "images" / "train").iterdir():
        path.unlink()
    data = CLEVR(root)
    assert data.sets.shape == (4, 10, 19)
    assert data.mask.sum() >= 12
    with pytest.raises(ValueError, match=r"train, scene 3: the image '.*CLEVR_train_000003.png' is missing: add"):
        data[3]


def test_worker_processes_read_the_same(root):
    here, there = (DataLoader(CLEVR(root, size=8), batch_size=4, num_workers=n) for n in (0, 1))
    assert all(torch.equal(a, b) for a, b in zip(next(iter(here)), next(iter(there)), strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["scenes"][2]["objects"][1].update(color="gren"), "scene 2: object 1, field 'color'.*'green'"),
        (lambda c: c["scenes"][1]["objects"][0].pop("shape"), "scene 1: object 0 has no field 'shape'"),
        (lambda c: c["scenes"][0]["objects"][0].update({"3d_coords": [1, 2]}), "scene 0: object 0.* has 2 numbers"),
        (lambda c: c["scenes"][0].update(objects=c["scenes"][0]["objects"] * 4), "scene 0: has .* holds 10"),
        (lambda c: c["scenes"][3].pop("objects"), "scene 3: needs objects and an image_filename"),
        (lambda c: c["scenes"].insert(1, "text"), "scene 1: needs objects"),
        (lambda c: c["scenes"][3].update(image_filename="../../x.png"), "scene 3: image_filename .* without folders"),
        (lambda c: c.pop("scenes"), "no list of scenes: is it CLEVR's file"),
    ],
)
def test_bad_scenes_are_named_with_file_scene_and_object(root, change, message):
    edit(root, change)
    with pytest.raises(ValueError, match=f"CLEVR_train_scenes.json.*{message}") as caught:
        CLEVR(root)
    assert "\n" not in str(caught.value)


def test_a_truncated_list_of_scenes_says_so(root):
    path = root / "scenes" / "CLEVR_train_scenes.json"
    path.write_text(path.read_text()[:-100])
    with pytest.raises(ValueError, match=r"CLEVR_train_scenes.json is not complete JSON .*: copy or download"):
        CLEVR(root)


def test_missing_folders_and_splits_say_what_to_give(tmp_path, root):
    with pytest.raises(ValueError, match="nowhere is not a folder: give the one that holds CLEVR's images/"):
        CLEVR(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"CLEVR_val_scenes.json is missing: is the split right"):
        CLEVR(root, "val")


@pytest.mark.parametrize("keep", [0, 20, -40])
def test_a_broken_image_is_named_with_its_scene(root, keep):
    path = first_image(root)
    path.write_bytes(path.read_bytes()[:keep] if keep else b"no image")
    with pytest.raises(ValueError, match=r"train, scene 0: the image 'CLEVR_train_000000.png'"):
        CLEVR(root)[0]


@needs_blender
def test_blenders_clevr_scenes_are_read_as_they_are_written():
    data = CLEVR(BLENDER, "val", size=64)
    scenes = json.loads((BLENDER / "scenes" / "CLEVR_val_scenes.json").read_text())["scenes"]
    assert len(data) == len(scenes) == 500
    assert data[499][0].shape == (3, 64, 64)
    for index in range(0, 500, 50):
        _, sets, mask = data[index]
        objects = CLEVR_SCHEMA.decode(sets)
        assert len(objects) == mask.sum() == len(scenes[index]["objects"])
        for thing, true in zip(objects, scenes[index]["objects"], strict=True):
            assert thing["3d_coords"] == pytest.approx(true["3d_coords"], abs=1e-5)
            assert all(thing[key] == true[key] for key in ("color", "shape", "size", "material"))

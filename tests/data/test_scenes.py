import json
import os
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.optimize import least_squares
from torch.utils.data import DataLoader

from setpred.data.clevr import CLEVR
from setpred.data.scenes import Scenes, arrange, picture, render, sample, shapes, studio, world, write

BLENDER = Path(os.environ.get("SETPRED_CLEVR_BLENDER", Path(__file__).parents[3] / "shared" / "clevr-blender"))
needs_blender = pytest.mark.skipif(
    not BLENDER.is_dir(),
    reason="the Blender scenes are not on this machine: set SETPRED_CLEVR_BLENDER to their folder",
)
BALL = {"shape": "sphere", "size": "large", "material": "rubber", "color": "gray", "3d_coords": [0.0, 0.0, 0.7]}
KINDS = [shapes.CUBE, shapes.SPHERE, shapes.CYLINDER]


def linear(image):
    value = image / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def pixel_of(image, point, position=studio.POSITION):
    """The linear colour that a picture shows at a point of the world."""
    column, row, _ = studio.project(point, position)
    height, width = image.shape[:2]
    return linear(image)[int(row * height / studio.HEIGHT), int(column * width / studio.WIDTH)]


def blender_scenes(count):
    scenes = json.loads((BLENDER / "scenes" / "CLEVR_val_scenes.json").read_text())["scenes"][:count]
    return [(scene, fit_camera(scene["objects"])) for scene in scenes]


def fit_camera(objects):
    """The camera position that explains a scene's pixels best."""
    points = np.array([thing["3d_coords"] for thing in objects])
    pixels = np.array([thing["pixel_coords"] for thing in objects])
    # The depth is not rounded, so it may weigh more than a pixel.
    weight = np.array([1.0, 1.0, 100.0])
    return least_squares(
        lambda position: ((studio.project(points, position) - pixels) * weight).ravel(), studio.POSITION
    ).x


@needs_blender
def test_the_camera_is_the_one_of_blenders_clevr_scenes():
    for scene, position in blender_scenes(60):
        points, pixels = ([thing[key] for thing in scene["objects"]] for key in ("3d_coords", "pixel_coords"))
        apart = np.abs(studio.project(points, position) - pixels)
        assert apart[:, :2].max() < 0.6
        assert apart[:, 2].max() < 0.01
        assert np.abs(position - studio.POSITION).max() < studio.JITTER + 0.02
        for name, direction in studio.directions(position).items():
            np.testing.assert_allclose(direction, scene["directions"][name], atol=0.002)


@needs_blender
def test_pictures_look_like_blenders():
    differences, ours, theirs = [], [], []
    for scene, position in blender_scenes(30):
        with Image.open(BLENDER / "images" / "val" / scene["image_filename"]) as file:
            theirs.append(np.asarray(file, dtype=float))
        ours.append(picture(arrange(scene["objects"], position), (192, 128)).astype(float))
        differences.append(np.sqrt(((ours[-1] - theirs[-1]) ** 2).mean()))
    assert np.mean(differences) < 8
    np.testing.assert_allclose(np.mean(ours, (0, 1, 2)), np.mean(theirs, (0, 1, 2)), atol=3)
    np.testing.assert_allclose(np.std(ours, (0, 1, 2)), np.std(theirs, (0, 1, 2)), atol=3)


def test_scenes_keep_clevrs_distances_and_visibility():
    counts = set()
    for index in range(60):
        scene = sample(3, index)
        counts.add(len(scene.objects))
        assert np.abs(scene.camera - studio.POSITION).max() <= studio.JITTER
        assert np.abs(scene.lamps - studio.LAMP_PLACES[:3]).max() <= studio.LAMP_JITTER
        directions = studio.directions(scene.camera)
        for thing in scene.objects:
            x, y, z = thing["3d_coords"]
            assert max(abs(x), abs(y)) <= 3
            assert z == world.SIZES[thing["size"]]
        for one, other in combinations(scene.objects, 2):
            offset = np.subtract(one["3d_coords"], other["3d_coords"]) * [1, 1, 0]
            assert np.linalg.norm(offset) - one["3d_coords"][2] - other["3d_coords"][2] >= 0.25
            assert all(abs(offset @ np.array(directions[name])) >= 0.4 for name in ("left", "behind"))
        ids = world.shown(scene.objects, scene.camera, studio.WIDTH, studio.HEIGHT)
        # The rule counts in steps of 16 pixels.
        assert np.bincount(ids[ids >= 0], minlength=len(scene.objects)).min() > 150
    assert counts == set(range(3, 11))


def test_pixel_coords_are_where_the_picture_shows_the_object():
    for index in range(20):
        scene = sample(4, index)
        for thing in scene.objects:
            column, row, depth = thing["pixel_coords"]
            exact = studio.project(thing["3d_coords"], scene.camera)
            assert np.abs(exact[:2] - [column, row]).max() <= 0.5
            assert depth == pytest.approx(exact[2])
            ids = world.shown([thing], scene.camera, studio.WIDTH, studio.HEIGHT)
            rows, columns = np.nonzero(ids == 0)
            if 60 < column < 420 and 60 < row < 260:
                # The outline of a solid seen from above is not quite centred on its centre's image.
                assert abs(columns.mean() + 0.5 - column) < 3
                assert abs(rows.mean() + 0.5 - row) < 3


def test_a_scene_is_the_same_bits_for_any_workers_order_and_company():
    scenes = Scenes(size=24, seed=5)
    one, two = scenes.batch(range(12), workers=1), scenes.batch(range(12), workers=3)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    image, sets, mask = scenes[7]
    assert torch.equal(image, one[0][7].float() / 255)
    assert torch.equal(sets, one[1][7])
    assert torch.equal(mask, one[2][7])
    assert not torch.equal(one[0][0], one[0][1])
    assert not torch.equal(one[0], Scenes(size=24, seed=6).batch(range(12))[0])
    assert torch.equal(one[1], Scenes(size=16, seed=5).batch(range(12))[1])


def test_the_stage_fills_every_picture():
    for signs in product((-1, 1), repeat=3):
        position = np.array(studio.POSITION) + studio.JITTER * np.array(signs)
        assert (world.shown([], position, 48, 32) > render.ON_NOTHING).all()


@pytest.mark.parametrize("kind", KINDS)
def test_rays_meet_a_solid_exactly_where_its_surface_is(kind):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        origin = rng.normal(size=3)
        origin *= 4 / np.linalg.norm(origin)
        ray = rng.uniform(-1.3, 1.3, 3) - origin
        ray /= np.linalg.norm(ray)
        along = np.array([shapes.distance(kind, *(origin + t * ray)) for t in np.linspace(0, 8, 800)])
        t = shapes.hit(kind, *origin, *ray)
        closest, gap = shapes.approach(kind, *origin, *ray, 2.0, 6.0)
        assert gap == pytest.approx(along.min(), abs=0.1)
        assert shapes.distance(kind, *(origin + closest * ray)) == pytest.approx(gap)
        if t == shapes.FAR:
            assert along.min() > -0.01
            continue
        hits += 1
        point = origin + t * ray
        assert abs(shapes.distance(kind, *point)) < 2e-3
        assert (along[: int(t * 100) - 1] > 0).all()
        steps = [[shapes.distance(kind, *(point + h * axis)) for h in (1e-4, -1e-4)] for axis in np.eye(3)]
        slope = np.array([(a - b) / 2e-4 for a, b in steps])
        np.testing.assert_allclose(shapes.normal(kind, *point), slope, atol=0.02)
    assert hits > 50


@pytest.mark.parametrize("color", studio.COLORS)
def test_rubber_shows_its_colour(color):
    shown = pixel_of(picture(arrange([{**BALL, "color": color}])), BALL["3d_coords"])
    true = np.array(studio.COLORS[color])
    np.testing.assert_allclose(shown / shown.sum(), true / true.sum(), atol=0.06)


def test_a_solid_throws_a_shadow_away_from_the_back_light():
    before, beside = np.array([0.4, -0.85, 0.0]), np.array([1.0, 1.6, 0.0])
    empty, full = picture(arrange([])), picture(arrange([BALL]))
    assert pixel_of(full, before).mean() < 0.85 * pixel_of(empty, before).mean()
    assert pixel_of(full, beside).mean() > 0.9 * pixel_of(empty, beside).mean()


def test_metal_mirrors_what_stands_beside_it_and_rubber_does_not():
    red = {**BALL, "color": "red", "shape": "cube", "3d_coords": [1.6, 1.0, 0.7]}
    beside = np.array([0.45, 0.3, 0.75])

    def redness(material, objects):
        image = picture(arrange([{**BALL, "material": material}, *objects]))
        shown = pixel_of(image, beside)
        return shown[0] / shown.sum()

    assert redness("metal", [red]) > redness("metal", []) + 0.15
    assert redness("rubber", [red]) < redness("rubber", []) + 0.1


def test_metal_has_highlights_brighter_than_rubber():
    brightest = {m: picture(arrange([{**BALL, "material": m, "color": "cyan"}])).max() for m in world.MATERIALS}
    assert brightest["metal"] > brightest["rubber"] + 50


def test_written_scenes_are_read_back_as_they_were_rendered(tmp_path):
    done = []
    out = write(tmp_path / "data", 5, size=24, seed=8, split="train", progress=lambda n, of: done.append((n, of)))
    write(out, 2, size=24, seed=9, split="val")
    assert done == [(n, 5) for n in range(1, 6)]
    assert sorted(path.name for path in out.rglob("*.*")) == [
        *(f"CLEVR_train_{i:06d}.png" for i in range(5)),
        "CLEVR_train_scenes.json",
        *(f"CLEVR_val_{i:06d}.png" for i in range(2)),
        "CLEVR_val_scenes.json",
    ]
    rendered = Scenes(5, size=24, seed=8)
    for one, other in zip(CLEVR(out, "train", size=24), rendered, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    scene = json.loads((out / "scenes" / "CLEVR_val_scenes.json").read_text())["scenes"][1]
    assert scene["objects"] == sample(9, 1).objects
    assert scene["directions"] == studio.directions(scene["camera"])


def test_writing_never_overwrites(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="no CLEVR folder: choose a new folder"):
        write(tmp_path, 1, size=8)
    out = write(tmp_path / "new", 1, size=8)
    with pytest.raises(ValueError, match="already holds the split train"):
        write(out, 1, size=8)
    with pytest.raises(ValueError, match="holds the scenes of seed 0 already: give this split another seed"):
        write(out, 1, size=8, split="val")
    with pytest.raises(ValueError, match="no name for a folder"):
        write(out, 1, size=8, split="../val")


def test_interrupted_writing_leaves_no_half_of_a_split(tmp_path):
    def stop(done, of):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, 4, size=8, progress=stop)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(CLEVR(write(tmp_path, 2, size=8), size=8)) == 2


def test_endless_scenes_have_no_length_and_counted_ones_an_end():
    endless = Scenes(size=8)
    assert endless[10**9][0].shape == (3, 8, 8)
    with pytest.raises(TypeError, match="endless"):
        len(endless)
    counted = Scenes(3, size=8)
    assert len(list(counted)) == 3
    for index in (3, -1):
        with pytest.raises(IndexError):
            counted[index]
    images, sets, mask = next(iter(DataLoader(counted, batch_size=3)))
    assert (images.shape, sets.shape, mask.shape) == ((3, 3, 8, 8), (3, 10, 19), (3, 10))


@pytest.mark.parametrize("bad", [{"objects": (0, 3)}, {"objects": (5, 4)}, {"objects": (3, 11)}, {"size": 0}])
def test_impossible_scenes_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Scenes(**bad)

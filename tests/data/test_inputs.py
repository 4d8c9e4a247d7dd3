"""Images of files as a model sees them: every kind, turned and on white, or refused."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from setpred.data.inputs import read_image


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "I;16"])
def test_every_common_kind_of_image_reads(tmp_path, mode):
    grey = np.full((6, 6), 128, dtype=np.uint8)
    image = Image.fromarray(grey.astype(np.uint16) * 256) if mode == "I;16" else Image.fromarray(grey).convert(mode)
    image.save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png", 4).mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_white(tmp_path, mode):
    drawing = np.zeros((8, 8, 4), dtype=np.uint8)
    drawing[:, :4, 3] = 255  # black on the left, nothing on the right
    Image.fromarray(drawing).convert(mode).save(tmp_path / "a.png")
    image = read_image(tmp_path / "a.png", 8)
    assert image[:, :, :3].max() == 0
    assert image[:, :, 5:].min() == 1


def test_photos_are_turned_as_their_camera_was_held(tmp_path):
    photo = np.zeros((16, 16, 3), dtype=np.uint8)
    photo[:8] = 255
    held = Image.Exif()
    held[0x0112] = 3  # upside down
    Image.fromarray(photo).save(tmp_path / "a.jpg", exif=held)
    image = read_image(tmp_path / "a.jpg", 16)
    assert image[:, :6].max() < 0.1
    assert image[:, 10:].min() > 0.9


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["png", "jpg", "gif", "bmp", "webp"]))
def test_mutated_images_read_or_are_refused(tmp_path, seed, kind):
    rng = random.Random(seed)
    Image.linear_gradient("L").resize((16, 16)).convert("RGB").save(tmp_path / f"a.{kind}")
    data = bytearray((tmp_path / f"a.{kind}").read_bytes())
    for _ in range(rng.randint(1, 8)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    (tmp_path / f"b.{kind}").write_bytes(data[: rng.randint(1, len(data))] if rng.random() < 0.3 else data)
    try:
        assert read_image(tmp_path / f"b.{kind}", 8).shape == (3, 8, 8)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017

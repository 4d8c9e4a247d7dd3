"""The playground answers: what it shows is what the library computes, and what cannot be answered is told in a line."""

import base64
import contextlib
import io
import json
import math
import re
import shutil
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image

from setpred.data.scenes import Scenes
from setpred.data.scenes import picture as scene_picture
from setpred.play.scenes_tab import uploaded_scene
from setpred.play.server import make_app
from setpred.play.zoo import pretrained


@pytest.fixture(scope="module")
def client():
    with TestClient(make_app()) as client:
        yield client


def run_code(code):
    """What the code on a page leaves behind, and what it prints."""
    names, out = {}, io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, names)
    return names, out.getvalue()


def picture(image, kind="PNG"):
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def test_the_code_of_a_scene_makes_the_objects_that_are_shown(client):
    answer = client.get("/api/scenes/2?steps=9").json()
    names, _ = run_code(answer["code"])
    last = answer["iterates"]["presence"][-1]
    assert torch.allclose(names["solution"].sets[0, :, -1], torch.tensor(last), atol=2e-3)
    assert len(answer["iterates"]["presence"]) == 10
    assert len(names["objects"]) == sum(presence > 0.5 for presence in answer["truth"]["presence"][0])


def bomb():
    """A PNG of a few kilobytes that says it is 50,000 pixels a side."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1_000_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        pytest.param(b"", "not a whole picture", id="empty"),
        pytest.param(b"this is a text named .png", "not a whole picture", id="text"),
        pytest.param(bomb(), "pixels", id="bomb"),
        pytest.param(picture(Image.new("1", (20_000, 20_000))), "pixels", id="20,000 pixels a side"),
        pytest.param(picture(Image.new("RGB", (20_000, 3))), "pixels", id="20,000 pixels wide"),
        pytest.param(picture(Image.effect_noise((64, 64), 99))[:900], "not a whole picture", id="cut off PNG"),
        pytest.param(picture(Image.effect_noise((64, 64), 99), "JPEG")[:900], "damaged", id="cut off JPEG"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a whole picture", id="svg"),
    ],
)
def test_a_bad_upload_gets_a_message_and_the_next_one_is_answered(client, content, word):
    answer = client.post("/api/scenes?steps=2", content=content)
    assert answer.status_code == 400
    assert word in answer.json()["error"]
    assert client.post("/api/scenes?steps=2", content=picture(Image.new("RGB", (30, 20)))).status_code == 200


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "GIF"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_pictures_of_every_kind_are_read(client, kind, mode):
    answer = client.post("/api/scenes?steps=2", content=picture(Image.new(mode, (90, 60)), kind)).json()
    assert answer["image"].startswith("data:image/png;base64,")
    assert answer["truth"] is None
    assert answer["strange"]


def test_a_picture_keeps_its_shape(client):
    answer = client.post("/api/scenes?steps=1", content=picture(Image.new("RGB", (50, 100), "red"))).json()
    content = base64.b64decode(answer["image"].partition(",")[2])
    shown = np.asarray(Image.open(io.BytesIO(content)))
    assert shown.shape == (320, 480, 3)
    red = (shown == (255, 0, 0)).all(-1)
    assert (red.any(0).sum(), red.any(1).sum()) == (160, 320)


def test_the_shipped_reader_says_how_large_its_images_are():
    assert pretrained("scenes").encoder.canvas == (192, 128)


def test_a_scene_of_its_own_world_is_not_strange(client):
    scene = Image.fromarray(scene_picture(Scenes(seed=5).scene(3), (480, 320)))
    assert not client.post("/api/scenes?steps=1", content=picture(scene)).json()["strange"]


def test_large_requests_are_refused_before_they_are_read(client):
    assert client.post("/api/scenes", content=bytes(9_000_000)).status_code == 413

    def endless():
        yield from (bytes(1_000_000) for _ in range(20))

    assert client.post("/api/scenes", content=endless()).status_code == 413


def test_visitors_at_the_same_time_get_their_own_answers():
    pictures = [picture(Image.new("RGB", (90, 60), colour)) for colour in ("red", "green", "blue", "white")]
    alone = [uploaded_scene(content, 2 + i) for i, content in enumerate(pictures)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(uploaded_scene, pictures, range(2, 6)))
    assert together == alone


def test_under_another_name_nothing_is_answered():
    client = TestClient(make_app(hosts=["127.0.0.1"]), base_url="http://127.0.0.1")
    assert client.get("/api/about").status_code == 200
    assert client.get("/api/about", headers={"host": "evil.example"}).status_code == 400


def test_the_page_loads_nothing_from_elsewhere(client):
    answer = client.get("/")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert client.get("/../server.py").status_code == 404
    assert client.get("/playground.html").status_code == 200


def test_the_guide_has_the_sections_that_the_pages_link_to(client):
    page, guide = client.get("/").text, client.get("/playground.html").text
    anchors = re.findall(r'href="\.\./playground\.html#([^"]*)"', page)
    assert len(anchors) == 4
    assert all(f'id="{anchor}"' in guide for anchor in anchors)
    assert all(re.match(r"\./($|#points|#lab)", link) for link in re.findall(r'<a href="([^"]*)"', guide))
    assert "<img" not in guide


@pytest.mark.parametrize("name", ["points", "numbers", "scene", "objects"])
def test_a_run_of_every_task_is_shown_and_its_code_runs(runs, name):
    client = TestClient(make_app([runs[name]]))
    (about,) = client.get("/api/about").json()["runs"]
    assert about["examples"] == 8
    first, second = (client.get(f"/api/runs/0/{i}?steps=3").json() for i in (0, 1))
    assert first != second
    _, out = run_code(first["code"])
    assert "loss" in out
    if name == "points":
        target, frames = first["target"], first["frames"]
        assert len(frames) == 4
        assert all(len(frame) == len(target) for frame in frames)
    elif name == "numbers":
        assert len(first["numbers"]) == len(first["wrong"]) == 4
    else:
        assert len(first["iterates"] if name == "objects" else first["iterates"]["presence"]) == 4
    wrong = client.get("/api/runs/0/8")
    assert (wrong.status_code, wrong.json()["error"]) == (400, "there is no example 8: this run shows 0 to 7")
    assert client.get("/api/runs/1/0").status_code == 400


def test_a_run_without_iterations_is_shown_and_its_code_runs(run_without_iterations):
    answer = TestClient(make_app([run_without_iterations])).get("/api/runs/0/0")
    assert answer.status_code == 200, answer.text
    _, out = run_code(answer.json()["code"])
    assert "loss" in out


def test_a_metric_that_is_no_number_does_not_hide_the_rest(runs, tmp_path):
    run = shutil.copytree(runs["points"], tmp_path / "run")
    result = json.loads((run / "result.json").read_text())
    result["metrics"] |= {"nan": math.nan, "none": None}
    (run / "result.json").write_text(json.dumps(result))
    (about,) = TestClient(make_app([run])).get("/api/about").json()["runs"]
    assert "loss" in about["metrics"]
    assert not {"nan", "none"} & set(about["metrics"])


def test_the_models_are_a_few_megabytes():
    folder = Path(__file__).parents[2] / "src" / "setpred" / "play" / "models"
    assert sum(path.stat().st_size for path in folder.rglob("*")) < 12_000_000

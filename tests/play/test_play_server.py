"""The playground answers: what it shows is what the library computes, and what cannot be answered is told in a line."""

import base64
import contextlib
import io
import json
import math
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
from setpred.errors import UsageError
from setpred.play.lab_tab import SUBJECTS
from setpred.play.launch import listen
from setpred.play.points_tab import PointsRequest, decode_points
from setpred.play.server import make_app
from setpred.play.zoo import pretrained

RING = [[round(1.5 * math.cos(i * math.pi / 8), 3), round(1.5 * math.sin(i * math.pi / 8), 3)] for i in range(16)]


@pytest.fixture(scope="module")
def client():
    with TestClient(make_app()) as client:
        yield client


def decoded(client, **changes):
    answer = client.post("/api/points", json={"points": RING, **changes})
    assert answer.status_code == 200, answer.text
    return answer.json()


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


def test_from_equal_points_only_sort_pooling_finds_the_set(client):
    models = decoded(client, spread=0)["models"]
    for pool in ("sum", "mean"):
        assert all(point == frame[0] for frame in models[pool]["frames"] for point in frame)
    last = models["fs"]["frames"][-1]
    assert len({tuple(point) for point in last}) == 16
    assert models["fs"]["error"][-1] < 0.02 * models["fs"]["error"][0]
    assert models["fs"]["error"][-1] < 0.1 * models["sum"]["error"][-1]


def test_all_models_start_from_the_same_points(client):
    models = decoded(client, spread=1.5, seed=3)["models"]
    assert models["fs"]["frames"][0] == models["sum"]["frames"][0] == models["mean"]["frames"][0]
    assert models["fs"]["frames"][0] != decoded(client, spread=1.5, seed=4)["models"]["fs"]["frames"][0]


def test_every_target_is_matched_once_at_every_iteration(client):
    fs = decoded(client, iterations=7)["models"]["fs"]
    assert len(fs["frames"]) == len(fs["pairs"]) == len(fs["inner"]) == len(fs["error"]) == 8
    assert all(sorted(pairs) == list(range(16)) for pairs in fs["pairs"])


def test_a_set_that_is_lost_is_told_and_still_json(client):
    models = decoded(client, step=5, momentum=0.99, iterations=200)["models"]
    lost = [model for model in models.values() if model["diverged"]]
    assert lost
    assert all(None in model["error"] for model in lost)


@pytest.mark.parametrize("changes", [{}, {"spread": 0}, {"step": 0.35, "momentum": 0.42, "iterations": 17, "seed": 5}])
def test_the_code_of_a_set_of_points_makes_what_is_shown(client, changes):
    answer = decoded(client, points=RING[:5], **changes)
    names, _ = run_code(answer["code"])
    shown = torch.tensor(answer["models"]["fs"]["frames"][-1])
    assert torch.allclose(names["solution"].sets[0, :5], shown, atol=1e-4)


def test_the_code_of_a_scene_makes_the_objects_that_are_shown(client):
    answer = client.get("/api/scenes/2?steps=9").json()
    names, _ = run_code(answer["code"])
    last = answer["iterates"]["presence"][-1]
    assert torch.allclose(names["solution"].sets[0, :, -1], torch.tensor(last), atol=2e-3)
    assert len(answer["iterates"]["presence"]) == 10
    assert len(names["objects"]) == sum(presence > 0.5 for presence in answer["truth"]["presence"][0])


@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_lab_and_its_code_agree(client, subject):
    dim = SUBJECTS[subject].dim
    X = [[0.5] * dim, [-1.0] * dim, [0.5] * dim]
    answer = client.post("/api/lab", json={"subject": subject, "X": X, "order": [2, 0, 1]}).json()
    names, out = run_code(answer["code"])
    assert torch.allclose(
        names["f"](names["X"][names["P"]][None])[0], torch.tensor(answer["of_permuted"]).double(), atol=1e-4
    )
    assert f"P2 = {'None' if answer['p2'] is None else torch.tensor(answer['p2'])}" in out
    if answer["p2"] is not None:
        repaired = torch.tensor(answer["out"])[answer["p2"]]
        assert torch.allclose(repaired, torch.tensor(answer["of_permuted"]), atol=1e-3)
        assert [X[i] for i in answer["p2"]] == [X[i] for i in (2, 0, 1)]


def test_the_verdicts_of_the_lab_are_the_papers(client):
    found = {}
    for subject, about in SUBJECTS.items():
        X = [[0.0] * about.dim] * 2
        found[subject] = client.post("/api/lab", json={"subject": subject, "X": X, "order": [1, 0]}).json()["verdict"]
    exclusive = {name for name, verdict in found.items() if verdict.startswith("exclusively")}
    neither = {name for name, verdict in found.items() if verdict.startswith("neither")}
    assert exclusive == {"push_apart", "sort_jacobian", "fs"}
    assert neither == {"transformer", "running_total"}


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        ("/api/points", {"points": []}, "points"),
        ("/api/points", {"points": [[0, 0]] * 17}, "points"),
        ("/api/points", {"points": [["nan", 0]]}, "points"),
        ("/api/points", {"points": RING, "iterations": 100_000}, "iterations"),
        ("/api/lab", {"subject": "os.system", "X": [[0], [1]], "order": [0, 1]}, "unknown function"),
        ("/api/lab", {"subject": "push_apart", "X": [[0], [1]], "order": [0, 0]}, "no permutation"),
        ("/api/lab", {"subject": "fs", "X": [[0], [1]], "order": [0, 1]}, "2 numbers"),
    ],
)
def test_what_cannot_be_answered_is_told_in_a_line(client, path, body, word):
    answer = client.post(path, json=body)
    assert answer.status_code == 400
    assert word in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


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
    requests = [PointsRequest(points=RING[: 4 + i], seed=i, spread=0.2 * i, iterations=10 + i) for i in range(8)]
    alone = [decode_points(request) for request in requests]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(decode_points, requests))
    assert together == alone


def test_under_another_name_nothing_is_answered():
    client = TestClient(make_app(hosts=["127.0.0.1"]), base_url="http://127.0.0.1")
    assert client.get("/api/about").status_code == 200
    assert client.get("/api/about", headers={"host": "evil.example"}).status_code == 400


def test_the_page_loads_nothing_from_elsewhere(client):
    answer = client.get("/")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert client.get("/../server.py").status_code == 404
    assert client.get("/docs/playground").status_code == 200


def test_the_guide_has_the_sections_that_the_pages_link_to(client):
    page, guide = client.get("/").text, client.get("/docs/playground").text
    anchors = [part.split('"')[0] for part in page.split('href="/docs/playground#')[1:]]
    assert len(anchors) == 4
    assert all(f'id="{anchor}"' in guide for anchor in anchors)


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


def test_what_is_no_run_is_refused_in_a_line(setpred):
    code, _, err = setpred("play", "nowhere", "--no-browser")
    assert code == 2
    assert err.count("\n") == 1
    assert "nowhere" in err


def test_a_port_that_is_taken_is_told():
    taken = listen("127.0.0.1", 0)
    taken.listen()
    try:
        with pytest.raises(UsageError, match="choose another --port"):
            listen("127.0.0.1", taken.getsockname()[1])
    finally:
        taken.close()


def test_the_models_are_a_few_megabytes():
    folder = Path(__file__).parents[2] / "src" / "setpred" / "play" / "models"
    assert sum(path.stat().st_size for path in folder.rglob("*")) < 12_000_000

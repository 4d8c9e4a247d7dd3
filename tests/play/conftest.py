"""Small finished runs of every task, and a browser."""

import json
import os
import random
import runpy
import shutil
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect, sync_playwright

from setpred.tasks import make_settings
from setpred.training.run import train

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCREENSHOTS = os.environ.get("SETPRED_SCREENSHOTS")
WAIT = 60_000  # ms, for machines that have other things to do
WIDE = {"width": 1280, "height": 860}
HOOK = Path(__file__).parents[2] / "docs" / "hooks" / "playground.py"

TINY = {
    "net.hidden": 16,
    "net.latent": 16,
    "optim.batch": 8,
    "optim.steps": 2,
    "trainer.round": 400,
    "trainer.logger": None,
    "data.train": 16,
    "data.test": 8,
}
# For a picture in the documentation a model should have learned something.
LEARNED = {"data.train": 64_000, "net.hidden": 64, "net.latent": 64, "optim.batch": 64, "optim.steps": 800}
TASKS = {
    "points": (
        "autoencoding",
        {"data.n": 6, "data.d": 2, "data.smallest": 2, **(LEARNED if "SETPRED_SCREENSHOTS" in os.environ else {})},
    ),
    "numbers": ("numbering", {"data.n": 6, "data.val": 8}),
    "scene": ("clevr", {"data.size": 64, "net.width": 4, "solver.steps": 6, "optim.iterations": "2,4"}),
}

WITHOUT_ITERATIONS = {
    "deepsets": ("numbering", TASKS["numbers"][1]),
    "slot-mlp": ("clevr", {"data.size": 64, "net.width": 4}),
}


def write_folder(root):
    """Vectors with as many objects as their first number says."""
    root.mkdir()
    draw = random.Random(0)

    def line(i):
        objects = [
            {"at": [draw.random(), draw.random()], "kind": draw.choice(["cat", "dog"])} for _ in range(1 + i % 3)
        ]
        return json.dumps({"id": i, "vector": [len(objects), draw.random(), 1.0], "objects": objects})

    (root / "train.jsonl").write_text("\n".join(map(line, range(16))))
    (root / "val.jsonl").write_text("\n".join(map(line, range(16, 24))))
    return root


@pytest.fixture(params=WITHOUT_ITERATIONS)
def run_without_iterations(request, tmp_path, monkeypatch):
    monkeypatch.setenv("SETPRED_CACHE", str(tmp_path / "cache"))
    task, changes = WITHOUT_ITERATIONS[request.param]
    train(make_settings(task, request.param, "quick", 0, TINY | changes), tmp_path / "run", quiet=True)
    return tmp_path / "run"


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A run folder for each kind of task, by name."""
    root = tmp_path_factory.mktemp("runs")
    tasks = {**TASKS, "objects": (str(write_folder(root / "data")), {})}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SETPRED_CACHE", str(root / "cache"))
        for name, (task, changes) in tasks.items():
            train(make_settings(task, "idspn", "quick", 0, TINY | changes), root / name, quiet=True)
        yield {name: root / name for name in tasks}


@pytest.fixture(scope="session")
def browser():
    if BROWSER is None:
        pytest.skip("there is no Chromium on this machine to open the page with")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Open an address; whatever the page says on the console, or asks of others, is a failure."""
    contexts, trouble = [], []

    def open_page(address, tab="", viewport=WIDE, **options):
        context = browser.new_context(viewport=viewport, **{"reduced_motion": "reduce", **options})
        context.set_default_timeout(WAIT)
        contexts.append(context)
        page = context.new_page()
        home = address.rpartition("/")[0]
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
        page.on("request", lambda asked: None if asked.url.startswith((home, "data:")) else trouble.append(asked.url))
        page.goto(f"{address}#{tab}")
        return page

    expect.set_options(timeout=WAIT)
    yield open_page
    for context in contexts:
        context.close()
    assert not [said for said in trouble if "400 (Bad Request)" not in said]


@pytest.fixture(scope="session")
def hook():
    """What makes the page without a server when the documentation is built."""
    return runpy.run_path(str(HOOK))


@pytest.fixture(scope="session")
def plain_files(hook, tmp_path_factory):
    """The address of the page without a server: files on a disk."""
    folder = tmp_path_factory.mktemp("site") / "play"
    folder.mkdir()
    for name, content in hook["static_files"]().items():
        (folder / name).write_text(content, encoding="utf-8")
    return (folder / "index.html").as_uri()


@pytest.fixture
def visit(open_page, plain_files):
    """Open a tab of the page without a server."""
    return lambda tab="", **options: open_page(plain_files, tab, **options)


@pytest.fixture(scope="session")
def keep():
    """Keeps pictures for the documentation, if they are being made (`make screenshots`): as wide as a column can show,
    for light pages and for dark ones."""

    def keep(page, name):
        if not SCREENSHOTS:
            return
        Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        page.evaluate("document.activeElement?.blur()")
        page.set_viewport_size({"width": 960, "height": 600})
        for scheme, ending in (("light", ""), ("dark", "-dark")):
            path = Path(SCREENSHOTS) / f"play-{name}{ending}.png"
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=path, full_page=True)
            # 256 colours are plenty for a page, and a quarter of the bytes.
            Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(WIDE)

    return keep

"""The playground with its server in a real browser: scenes, runs, and what all pages share.

With SETPRED_SCREENSHOTS=FOLDER the pictures of the documentation are made on the way (`make screenshots`).
"""

import threading

import pytest
import uvicorn
from PIL import Image
from playwright.sync_api import expect

from setpred.play.launch import listen
from setpred.play.server import make_app

PHONE = {"width": 360, "height": 800}


@pytest.fixture(scope="module")
def serving(runs):
    """The addresses of a playground with runs and of one without."""
    servers = []

    def serve(app):
        listener = listen("127.0.0.1", 0)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"

    yield {"runs": serve(make_app(runs.values())), "none": serve(make_app())}
    for server, thread in servers:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def served(open_page, serving):
    return lambda tab, runs="runs", **options: open_page(serving[runs], tab, **options)


def test_points_and_the_lab_are_those_of_the_page_without_a_server(served, visit):
    for tab, shown in (("points?story=2", "#error-fs"), ("lab?f=fs", "#verdict")):
        here, there = served(tab), visit(tab)
        expect(here.locator(shown)).not_to_be_empty()
        expect(there.locator(shown)).to_have_text(here.locator(shown).inner_text())


def test_scenes_are_stepped_through_and_pictures_uploaded(served, tmp_path, keep):
    page = served("scenes")
    summary = page.locator("#scene-summary")
    expect(summary).to_contain_text("objects right")
    expect(page.locator("#scene-quality")).to_contain_text("average precision")
    keep(page, "scenes")
    image = page.locator("#scene-picture image")
    before = image.get_attribute("href")
    page.locator("#scene-next").click()
    expect(page.locator("#scenes-code code")).to_contain_text("[4]")
    assert image.get_attribute("href") != before
    page.locator("#scene-threshold").press("Home")
    expect(page.locator("#scene-picture .thing").first).to_be_attached()
    page.locator("#scene-iteration").press("Home")
    expect(page.locator("#scene-view .player output").first).to_have_text("0 / 40")
    picture = tmp_path / "mine.png"
    Image.new("RGB", (300, 200), (40, 90, 160)).save(picture)
    page.locator("#scene-file").set_input_files(picture)
    expect(summary).to_contain_text("found")
    expect(page.locator("#scenes-code code")).to_contain_text("your-picture.png")


def test_after_an_upload_the_same_scene_can_be_chosen_again(served, tmp_path):
    page = served("scenes?scene=5")
    code = page.locator("#scenes-code code")
    expect(code).to_contain_text("[5]")
    Image.new("RGB", (30, 20)).save(tmp_path / "mine.png")
    page.locator("#scene-file").set_input_files(tmp_path / "mine.png")
    expect(code).to_contain_text("your-picture.png")
    page.locator("#scene-number").fill("5")
    page.locator("#scene-number").press("Enter")
    expect(code).to_contain_text("[5]")


@pytest.mark.parametrize(("typed", "shown"), [("1000000", "999999"), ("-3", "0"), ("1e9", "999999")])
def test_a_scene_number_beyond_the_limit_is_the_nearest_one(served, typed, shown):
    page = served("scenes")
    page.locator("#scene-number").fill(typed)
    page.locator("#scene-number").press("Enter")
    expect(page.locator("#scene-number")).to_have_value(shown)
    expect(page.locator("#scenes-code code")).to_contain_text(f"[{shown}]")
    expect(page.locator("#message")).to_be_hidden()


def test_a_bad_upload_is_told_on_the_page_which_goes_on(served, tmp_path):
    page = served("scenes")
    expect(page.locator("#scene-summary")).to_contain_text("objects right")
    text = tmp_path / "text.png"
    text.write_text("not a picture")
    page.locator("#scene-file").set_input_files(text)
    expect(page.locator("#message")).to_contain_text("not a whole picture")
    page.locator("#scene-next").click()
    expect(page.locator("#message")).to_be_hidden()


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("points", "#run-error:has-text('error')"),
        ("numbers", "#run-body td"),
        ("scene", "#run-scene-picture image"),
        ("objects", "#run-objects td"),
    ],
)
def test_runs_are_shown_with_their_examples(served, name, where, keep):
    page = served("run")
    page.locator("#run-choice").select_option(label=name)
    expect(page.locator(where).first).to_be_visible()
    code = page.locator("#run-code code")
    expect(code).to_contain_text(f"/{name}'")
    if name == "points":
        keep(page, "run")
    page.locator("#run-next").click()
    expect(code).to_contain_text("part[1 : 2]")
    page.locator("#run-example").fill("99")
    page.locator("#run-example").press("Enter")
    expect(code).to_contain_text("part[7 : 8]")


def test_without_a_run_the_page_says_how_to_name_one_and_shows_no_empty_box(served):
    page = served("run", runs="none")
    expect(page.locator("#run-view")).to_contain_text("setpred play runs/mine")
    for card in page.locator("#run .card").all():
        assert card.inner_text().strip() or not card.is_visible()


@pytest.mark.parametrize("tab", ["points", "scenes", "lab", "run"])
def test_a_phone_shows_every_page_without_scrolling_sideways(served, tab):
    page = served(tab, viewport=PHONE, has_touch=True, color_scheme="dark")
    expect(page.locator(f"#{tab}-code code")).not_to_be_empty()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    place = page.locator(f"#tab-{tab}").bounding_box()
    assert place["x"] >= 0
    assert place["x"] + place["width"] <= PHONE["width"]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in ground.removeprefix("rgb(").removesuffix(")").split(",")) < 60


@pytest.mark.parametrize("name", ["numbers", "scene", "objects"])
def test_a_phone_shows_every_kind_of_run_without_scrolling_sideways(served, name):
    page = served("run", viewport=PHONE, has_touch=True)
    page.locator("#run-choice").select_option(label=name)
    expect(page.locator("#run-code code")).to_contain_text(f"/{name}'")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_pages_are_reached_by_arrow_keys(served):
    page = served("points")
    # The browser goes to the element that the address names when the page has loaded, and then nothing has the focus.
    expect(page.locator("#points-code code")).not_to_be_empty()
    page.locator("#tab-points").press("ArrowRight")
    expect(page.locator("#lab")).to_be_visible()
    expect(page.locator("#tab-lab")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#points")).to_be_visible()


def test_the_code_is_copied(served):
    page = served("lab", permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator("#lab-code code")).not_to_be_empty()
    page.locator("#lab-code summary").click()
    page.locator("#lab-code .copy").click()
    expect(page.locator("#lab-code .copy")).to_have_text("Copied")
    assert "sp.equivariance.check" in page.evaluate("navigator.clipboard.readText()")

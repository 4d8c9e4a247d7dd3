"""The playground in a real browser: hands on every page.

With SETPRED_SCREENSHOTS=FOLDER the pictures of the documentation are made on the way (`make screenshots`).
"""

import os
import re
import shutil
import threading
from pathlib import Path

import pytest
import uvicorn
from PIL import Image
from playwright.sync_api import expect, sync_playwright

from setpred.play.launch import listen
from setpred.play.server import make_app

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCREENSHOTS = os.environ.get("SETPRED_SCREENSHOTS")
WAIT = 60_000  # ms, for machines that have other things to do
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine to open the page with")


@pytest.fixture(scope="module")
def address(runs):
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(make_app(runs.values()), log_level="error"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    """Open a page of the playground; whatever it says on the console, or asks of others, is a failure."""
    contexts, trouble = [], []

    def open_page(tab, viewport=WIDE, **options):
        context = browser.new_context(viewport=viewport, **{"reduced_motion": "reduce", **options})
        context.set_default_timeout(WAIT)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
        page.on(
            "request", lambda asked: None if asked.url.startswith((address, "data:")) else trouble.append(asked.url)
        )
        page.goto(f"{address}#{tab}")
        return page

    expect.set_options(timeout=WAIT)
    yield open_page
    for context in contexts:
        context.close()
    assert not [said for said in trouble if "400 (Bad Request)" not in said]


def keep(page, name):
    """A picture for the documentation, if they are being made."""
    if SCREENSHOTS:
        path = Path(SCREENSHOTS) / f"play-{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        page.evaluate("document.activeElement?.blur()")
        page.screenshot(path=path, full_page=True)
        # 256 colours are plenty for a page, and a quarter of the bytes.
        Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def error(page, pool):
    return float(page.locator(f"#error-{pool}").inner_text().removeprefix("error "))


def test_a_dragged_point_is_found_at_its_new_place(visit):
    page = visit("points")
    expect(page.locator("#error-fs")).not_to_be_empty()
    expect(page.locator("#model-fs .found circle")).to_have_count(16)
    expect(page.locator("#model-fs .links line")).to_have_count(16)
    keep(page, "points")
    handle = page.locator("#editor [data-index='4']")
    before = handle.get_attribute("aria-label")
    box, plane = handle.locator(".handle").bounding_box(), page.locator("#editor").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(plane["x"] + plane["width"] * 0.75, plane["y"] + plane["height"] * 0.25, steps=6)
    page.mouse.up()
    assert handle.get_attribute("aria-label") != before
    expect(handle).to_have_attribute("aria-label", "point 5 at 1.50, 1.50: arrow keys move it, Delete removes it")
    expect(page.locator("#points-code code")).to_contain_text("[1.5, 1.5]")
    target = page.locator("#model-fs .targets circle").nth(4)
    expect(target).to_have_attribute("cx", "1.5")
    assert error(page, "fs") < error(page, "sum")


def test_at_no_spread_the_points_of_sum_and_mean_stay_together(visit):
    page = visit("points")
    expect(page.locator("#error-fs")).not_to_be_empty()
    page.locator("#spread").press("Home")
    for pool in ("sum", "mean"):
        expect(page.locator(f"#model-{pool} .counts")).to_have_text("×16")
    expect(page.locator("#model-fs .counts")).not_to_contain_text("×16")
    assert error(page, "fs") < 0.1 * error(page, "sum")
    keep(page, "equal-start")
    page.locator("#points-iteration").press("Home")
    expect(page.locator("#model-fs .counts")).to_have_text("×16")


def test_points_are_added_moved_and_removed_by_keyboard(visit):
    page = visit("points")
    page.locator("#preset-ring").click()
    page.locator("#remove").press("Enter")
    expect(page.locator("#count")).to_have_text("15 of 16")
    page.locator("#add").press("Enter")
    expect(page.locator("#count")).to_have_text("16 of 16")
    page.locator("#editor [data-index='0']").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#editor [data-index='0']")).to_have_attribute(
        "aria-label", "point 1 at 0.10, 1.60: arrow keys move it, Delete removes it"
    )
    expect(page.locator("#points-code code")).to_contain_text("[[0.1, 1.6]")
    page.keyboard.press("Delete")
    expect(page.locator("#model-mean .found path")).to_have_count(15)


def test_a_double_click_removes_the_point_it_hits_and_leaves_the_one_it_makes(visit):
    page = visit("points")
    expect(page.locator("#error-fs")).not_to_be_empty()
    page.locator("#size").press("ArrowLeft")
    expect(page.locator("#count")).to_have_text("15 of 16")
    expect(page.locator("#points-code code")).to_contain_text("points")
    page.locator("#editor .handles > g .handle").nth(3).dblclick(force=True)
    expect(page.locator("#count")).to_have_text("14 of 16")
    page.locator("#editor").dblclick(position={"x": 4, "y": 4})
    expect(page.locator("#count")).to_have_text("15 of 16")


def test_fewer_points_of_a_digit_are_still_that_digit(visit):
    page = visit("points")
    expect(page.locator("#count")).to_have_text("16 of 16")
    places = page.locator("#editor .handles > g").evaluate_all("all => all.map((g) => g.getAttribute('transform'))")
    page.locator("#size").press("ArrowLeft")
    expect(page.locator("#count")).to_have_text("15 of 16")
    page.locator("#size").press("ArrowRight")
    expect(page.locator("#count")).to_have_text("16 of 16")
    assert places == page.locator("#editor .handles > g").evaluate_all(
        "all => all.map((g) => g.getAttribute('transform'))"
    )


def test_answers_of_the_lab_are_shown_with_what_was_asked(visit):
    page = visit("lab")
    page.evaluate("""() => {
        const message = document.querySelector("#message");
        window.said = [];
        new MutationObserver(() => window.said.push(message.textContent)).observe(message, { childList: true });
    }""")
    page.locator("#lab-subject").select_option("fs")
    for _ in range(2):
        page.get_by_role("button", name="Duplicate element 0").click()
    expect(page.locator("#lab-comparison tbody tr")).to_have_count(6)
    assert not any(page.evaluate("window.said")), "an answer for fewer elements was drawn as one for more"


def test_the_way_is_played_and_can_be_stopped(visit):
    page = visit("points", reduced_motion="no-preference")
    expect(page.locator("#error-fs")).not_to_be_empty()
    page.locator("#iterations").press("End")
    expect(page.locator("#points-iteration")).to_have_attribute("max", "200")
    play = page.locator("#points-player .play")
    expect(play).to_have_attribute("aria-label", "Pause")
    expect(page.locator("#points-iteration")).to_have_value(re.compile(r"[6-9]|\d{2,}"))
    play.click()
    expect(play).to_have_attribute("aria-label", "Play")
    assert 5 < int(page.locator("#points-iteration").input_value()) <= 200


def test_scenes_are_stepped_through_and_pictures_uploaded(visit, tmp_path):
    page = visit("scenes")
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


def test_a_bad_upload_is_told_on_the_page_which_goes_on(visit, tmp_path):
    page = visit("scenes")
    expect(page.locator("#scene-summary")).to_contain_text("objects right")
    text = tmp_path / "text.png"
    text.write_text("not a picture")
    page.locator("#scene-file").set_input_files(text)
    expect(page.locator("#message")).to_contain_text("not a whole picture")
    page.locator("#scene-next").click()
    expect(page.locator("#message")).to_be_hidden()


def test_the_lab_shows_why_a_verdict_is_what_it_is(visit):
    page = visit("lab")
    expect(page.locator("#verdict")).to_have_text("exclusively multiset-equivariant")
    expect(page.locator("#lab-cause")).to_contain_text("P₂ = [2, 0, 1] works")
    keep(page, "lab")
    page.get_by_label("element 1, number 0").fill("3")
    page.get_by_label("element 1, number 0").press("Enter")
    expect(page.locator("#lab-cause")).to_contain_text("the same: P₂ = P")
    page.locator("#lab-subject").select_option("sum")
    expect(page.locator("#verdict")).to_contain_text("set-equivariant (and so multiset-equivariant)")
    page.locator("#lab-subject").select_option("running_total")
    expect(page.locator("#verdict")).to_have_text("neither set- nor multiset-equivariant")
    page.get_by_label("Duplicate element 0").click()
    expect(page.locator("#lab-comparison tbody tr")).to_have_count(4)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("points", "#run-error:has-text('set error')"),
        ("numbers", "#run-body td"),
        ("scene", "#run-scene-picture image"),
        ("objects", "#run-objects td"),
    ],
)
def test_runs_are_shown_with_their_examples(visit, name, where):
    page = visit("run")
    page.locator("#run-choice").select_option(label=name)
    expect(page.locator(where).first).to_be_visible()
    code = page.locator("#run-code code")
    expect(code).to_contain_text(f"/{name}'")
    if name == "points":
        keep(page, "run")
    page.locator("#run-next").click()
    expect(code).to_contain_text("part[1 : 2]")


@pytest.mark.parametrize("tab", ["points", "scenes", "lab", "run"])
def test_a_phone_shows_every_page_without_scrolling_sideways(visit, tab):
    page = visit(tab, viewport=PHONE, has_touch=True, color_scheme="dark")
    expect(page.locator(f"#{tab}-code code")).not_to_be_empty()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in ground.removeprefix("rgb(").removesuffix(")").split(",")) < 60
    if tab == "points":
        keep(page, "phone")


def test_pages_are_reached_by_arrow_keys(visit):
    page = visit("points")
    page.locator("#tab-points").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#scenes")).to_be_visible()
    expect(page.locator("#tab-scenes")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#points")).to_be_visible()


def test_the_code_is_copied(visit):
    page = visit("lab", permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator("#lab-code code")).not_to_be_empty()
    page.locator("#lab-code summary").click()
    page.locator("#lab-code .copy").click()
    expect(page.locator("#lab-code .copy")).to_have_text("Copied")
    assert "sp.equivariance.check" in page.evaluate("navigator.clipboard.readText()")

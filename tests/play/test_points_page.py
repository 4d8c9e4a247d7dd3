"""Sets of points on a page of plain files: the browser computes what PyTorch does, and hands try everything."""

import io
import math
import re
from contextlib import redirect_stdout
from copy import deepcopy
from itertools import pairwise

import pytest
import torch
from playwright.sync_api import expect

import setpred as sp
from setpred.play import pretrained

POOLS = ("fs", "sum", "mean")
RING = [[round(1.5 * math.cos(i * math.pi / 8), 3), round(1.5 * math.sin(i * math.pi / 8), 3)] for i in range(16)]
USUAL = {"iterations": 40, "momentum": 0.9, "step": 0.7, "spread": 0.5, "seed": 0}
CASES = {
    "ring": {"points": RING},
    "equal start": {"points": RING, "spread": 0.0, "pools": ("fs", "mean")},
    "few": {"points": [[0.3, -1.2], [1.1, 0.4], [-2.0, 1.7]], "seed": 11, "iterations": 60},
    "twins": {"points": [point for point in RING[::2] for _ in (0, 1)], "spread": 1.5, "seed": 3},
    "one": {"points": [[0.5, 0.25]], "step": 0.35, "momentum": 0.42},
}
# A script that lends a module of the page to a test.
PROBE = """
import { decodeAll } from "./descent.js";
import { randn } from "./torchrandom.js";
Object.assign(window, { decodeAll, randn });
"""


@pytest.fixture(scope="module")
def probe(browser, hook):
    """The functions of the page, in the browser."""
    page = browser.new_page()
    page.add_script_tag(
        content=hook["bundled"]("probe.js", lambda name: PROBE if name == "probe.js" else hook["read_module"](name))
    )
    yield page
    page.close()


@torch.no_grad()
def decoded(pool, points, iterations, momentum, step, spread, seed):
    """Iterates, inner loss and set error of every iteration, by PyTorch in double precision."""
    model, target = deepcopy(pretrained(f"points-{pool}")).double(), torch.tensor(points, dtype=torch.float64)
    sets, mask = sp.pad_sets([target], size=16)
    start = spread * torch.randn(16, 2, generator=torch.Generator().manual_seed(seed))
    decoder = sp.SetDecoder(model.decoder.encoder, solver=sp.Nesterov(iterations, lr=step, momentum=momentum))
    trace = decoder.solve(model.encode(sets, mask), mask, init=start.double(), trace=True).trace
    found = trace.sets[:, 0, : len(target)]
    return found, trace.loss[:, 0], sp.hungarian_loss(found, target.expand_as(found))


@pytest.mark.parametrize("case", CASES)
def test_the_browser_computes_what_pytorch_computes(probe, case):
    request = USUAL | CASES[case]
    pools = request.pop("pools", POOLS)  # a sum of equal points is too steep for this step, and rounding decides
    answer = probe.evaluate("(request) => decodeAll(request)", request)
    for pool in pools:
        sets, loss, error = decoded(pool, **request)
        for ours, theirs in (("frames", sets), ("inner", loss), ("error", error)):
            torch.testing.assert_close(torch.tensor(answer[pool][ours]).double(), theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31 - 1])
def test_the_start_is_torchs_for_the_same_seed(probe, seed):
    drawn = torch.tensor(probe.evaluate("(seed) => [...randn(seed, 32)]", seed))
    torch.testing.assert_close(drawn, torch.randn(32, generator=torch.Generator().manual_seed(seed)), atol=5e-6, rtol=0)


def test_every_target_is_matched_once_at_every_iteration(probe):
    answer = probe.evaluate("(request) => decodeAll(request)", USUAL | {"points": RING, "iterations": 7})
    assert [len(answer["sum"][name]) for name in ("frames", "pairs", "inner", "error")] == [8] * 4
    assert all(sorted(pairs) == list(range(16)) for pool in POOLS for pairs in answer[pool]["pairs"])


def places(page, where="#editor .handles > g"):
    """Where the points of the editor are."""
    texts = page.locator(where).evaluate_all("all => all.map((g) => g.getAttribute('transform'))")
    return [tuple(map(float, re.findall(r"-?[\d.]+", text))) for text in texts]


def error(page, pool):
    return float(page.locator(f"#error-{pool}").inner_text().removeprefix("error "))


def ready(page):
    expect(page.locator("#error-fs")).not_to_be_empty()
    return page


def drag(page, *steps):
    """Hold the mouse down over the editor from place to place, as fractions of its width and height."""
    plane = page.locator("#editor").bounding_box()
    corners = [(plane["x"] + x * plane["width"], plane["y"] + y * plane["height"]) for x, y in steps]
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*corner, steps=4)
    page.mouse.up()


def test_the_code_on_the_page_makes_what_is_shown(visit):
    page = ready(visit("points?set=0.5,1;-1,-0.25;1.5,0&spread=1&seed=4"))
    names = {}
    with redirect_stdout(io.StringIO()) as out:
        exec(page.locator("#points-code code").text_content(), names)
    marks = page.locator("#model-fs .found circle").evaluate_all(
        "all => all.map((c) => [+c.getAttribute('cx'), -c.getAttribute('cy')])"
    )
    torch.testing.assert_close(names["solution"].sets[0, :3], torch.tensor(marks), atol=1e-4, rtol=0)
    assert "set error" in out.getvalue()


def test_a_dragged_point_is_found_at_its_new_place(visit, keep):
    page = ready(visit())
    expect(page.locator("#model-fs .found circle")).to_have_count(16)
    expect(page.locator("#model-fs .links line")).to_have_count(16)
    keep(page, "points")
    x, y = places(page)[4]
    drag(page, ((x + 3) / 6, (y + 3) / 6), (0.75, 0.25))
    handle = page.locator("#editor [data-index='4']")
    expect(handle).to_have_attribute("aria-label", "point 5 at 1.50, 1.50: arrow keys move it, Delete removes it")
    expect(page.locator("#points-code code")).to_contain_text("[1.5, 1.5]")
    expect(page.locator("#model-fs .targets circle").nth(4)).to_have_attribute("cx", "1.5")
    assert error(page, "fs") < error(page, "sum")


def test_the_error_of_the_first_set_does_not_rise_again(visit):
    page = ready(visit())
    label = page.locator("#points-iteration")
    errors = []
    for t in range(41):
        label.evaluate("(input, t) => { input.value = t; input.dispatchEvent(new Event('input')); }", t)
        errors.append(error(page, "fs"))
    assert errors[-1] < 2 * min(errors)
    assert errors[-1] < 1e-3


def test_points_are_added_moved_and_removed_by_keyboard(visit):
    page = ready(visit())
    page.locator("#preset-ring").click()
    page.locator("#remove").press("Enter")
    expect(page.locator("#count")).to_have_text("15 of 16")
    page.locator("#add").press("Enter")
    expect(page.locator("#count")).to_have_text("16 of 16")
    page.locator("#editor [data-index='0']").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#points-code code")).to_contain_text("[[0.1, 1.6]")
    page.keyboard.press("Delete")
    expect(page.locator("#model-mean .found path")).to_have_count(15)


def test_a_double_click_removes_the_point_it_hits_and_leaves_the_one_it_makes(visit):
    page = ready(visit())
    page.locator("#size").press("ArrowLeft")
    expect(page.locator("#count")).to_have_text("15 of 16")
    page.locator("#editor .handles > g .handle").nth(3).dblclick(force=True)
    expect(page.locator("#count")).to_have_text("14 of 16")
    page.locator("#editor").dblclick(position={"x": 4, "y": 4})
    expect(page.locator("#count")).to_have_text("15 of 16")


def test_buttons_that_can_do_nothing_look_so(visit):
    page = ready(visit("points?set=0,0;1,1"))
    expect(page.locator("#add")).to_be_enabled()
    page.locator("#remove").click()
    expect(page.locator("#count")).to_have_text("1 of 16")
    expect(page.locator("#remove")).to_be_disabled()
    page.locator("#size").press("End")
    expect(page.locator("#add")).to_be_disabled()
    expect(page.locator("#remove")).to_be_enabled()


def test_fewer_points_of_a_digit_are_still_that_digit(visit):
    page = ready(visit())
    before = places(page)
    page.locator("#size").press("ArrowLeft")
    expect(page.locator("#count")).to_have_text("15 of 16")
    assert max(math.dist(*pair) for pair in zip(places(page), before, strict=False)) > 0.01
    page.locator("#size").press("ArrowRight")
    expect(page.locator("#count")).to_have_text("16 of 16")
    assert places(page) == before


def test_edits_outlive_another_number_of_points_and_reset_brings_the_set_back(visit):
    page = ready(visit())
    begun = places(page)
    page.locator("#editor [data-index='2']").focus()
    page.keyboard.press("ArrowLeft")
    edited = places(page)
    assert edited != begun
    page.locator("#size").press("ArrowLeft")
    expect(page.locator("#count")).to_have_text("15 of 16")
    assert places(page) == edited[:15]
    page.locator("#size").press("ArrowRight")
    assert places(page) == edited
    page.locator("#step").press("End")
    page.locator("#reset").click()
    assert places(page) == begun
    expect(page.locator("#step")).to_have_value("0.7")


def test_twins_are_seen_to_be_two(visit):
    page = ready(visit("points?set=1,1;1,1;-1,0"))
    expect(page.locator("#editor .several")).to_have_count(1)
    expect(page.locator("#editor .several text")).to_have_text("×2")
    rings = page.locator("#model-fs .targets circle").evaluate_all("all => all.map((c) => c.getAttribute('r'))")
    assert len(rings) == 4  # three points, and a second ring around the twins
    assert len(set(rings)) == 2


def test_the_descent_is_played_and_can_be_stopped(visit):
    page = ready(visit(reduced_motion="no-preference"))
    page.locator("#iterations").press("End")
    expect(page.locator("#points-iteration")).to_have_attribute("max", "200")
    play = page.locator("#points-player .play")
    expect(play).to_have_attribute("aria-label", "Pause")
    expect(page.locator("#points-iteration")).to_have_value(re.compile(r"[6-9]|\d{2,}"))
    play.click()
    expect(play).to_have_attribute("aria-label", "Play")
    assert 5 < int(page.locator("#points-iteration").input_value()) <= 200


def test_the_story_is_told_in_five_steps(visit, keep):
    page = ready(visit())
    caption = page.locator("#story-caption")
    expect(caption).to_contain_text("same random points")
    page.locator("#story-next").click()
    expect(caption).to_contain_text("start at one place")
    for pool in ("sum", "mean"):
        expect(page.locator(f"#model-{pool} .counts")).to_have_text("×16")
    expect(page.locator("#model-fs .counts")).not_to_contain_text("×16")
    assert error(page, "fs") < 0.01 * error(page, "sum")
    keep(page, "equal-start")
    page.locator("#points-iteration").press("Home")
    expect(page.locator("#model-fs .counts")).to_have_text("×16")
    page.locator("#points-iteration").press("End")
    page.locator("#story-next").click()
    expect(caption).to_contain_text("twin")
    expect(page.locator("#editor .several")).to_have_count(8)
    expect(page.locator("#points-iteration")).to_have_attribute("max", "60")
    assert error(page, "fs") < 0.001 < 0.1 < error(page, "mean")
    page.locator("#story-next").click()
    expect(caption).to_contain_text("overshoot")
    expect(page.locator("#error-sum")).to_contain_text("diverged")
    page.locator("#story-next").click()
    expect(caption).to_contain_text("draw a line")
    expect(page.locator("#draw")).to_have_attribute("aria-pressed", "true")
    page.locator("#story-next").click()
    expect(caption).to_contain_text("same random points")


def test_a_descent_that_diverges_shows_its_best_iterate(visit):
    page = ready(visit("points?story=4"))
    expect(page.locator("#error-fs")).to_contain_text("diverged; best 0.2")
    for pool, mark in (("fs", "circle"), ("sum", "rect")):
        shown = page.locator(f"#model-{pool} .found {mark}")
        expect(shown).to_have_count(16)
        box = page.locator(f"#model-{pool} svg").bounding_box()
        at = shown.first.bounding_box()
        assert box["x"] <= at["x"] <= box["x"] + box["width"]
        assert box["y"] <= at["y"] <= box["y"] + box["height"]


def test_a_drawing_becomes_points_along_its_line(visit):
    page = ready(visit("points?set=0,0;1,1;1,0"))
    page.locator("#story-5").click()
    expect(page.locator("#count")).to_have_text("16 of 16")
    drag(page, (0.25, 0.5), (0.75, 0.5))
    first = places(page)
    assert all(abs(y) < 0.05 for _, y in first)
    across = sorted(x for x, _ in first)
    gaps = [b - a for a, b in pairwise(across)]
    assert max(gaps) < 1.2 * min(gaps)
    assert across[-1] - across[0] > 2.5
    drag(page, (0.5, 0.25), (0.5, 0.75))
    assert max(y for _, y in places(page)) > 1, "a second line belongs to the same drawing"
    page.locator("#size").press("ArrowLeft")
    expect(page.locator("#count")).to_have_text("15 of 16")
    assert max(y for _, y in places(page)) > 1
    page.locator("#draw").click()
    expect(page.locator("#draw")).to_have_attribute("aria-pressed", "false")


def test_a_set_is_shared_as_a_link(visit, open_page):
    page = ready(visit("", permissions=["clipboard-read", "clipboard-write"]))
    page.locator("#preset-random").click()
    page.locator("#editor [data-index='3']").focus()
    page.keyboard.press("ArrowUp")
    page.locator("#spread").press("ArrowRight")
    page.locator("#new-start").click()
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    address, _, state = page.evaluate("navigator.clipboard.readText()").partition("#")
    other = ready(open_page(address, state))
    expect(other.locator("#points-code code")).to_have_text(page.locator("#points-code code").text_content())
    assert places(other) == places(page)
    other.evaluate("location.hash = '#points?story=3'")
    expect(other.locator("#story-caption")).to_contain_text("twin")


def test_every_step_of_the_story_has_a_link(visit):
    for step, words in enumerate(("same random", "one place", "twin", "overshoot", "draw a line"), start=1):
        page = ready(visit(f"points?story={step}"))
        expect(page.locator("#story-caption")).to_contain_text(words)
        expect(page.locator("#count")).to_have_text("16 of 16")


@pytest.mark.parametrize(
    "state",
    [
        "set=",
        "set=a,b",
        "set=1;2",
        "set=NaN,0",
        "set=1,1,1",
        "set=" + "0,0;" * 999,
        "story=99",
        "story=-1",
        "story=constructor",
        "%",
    ],
)
def test_whatever_stands_in_the_address_the_page_opens(visit, state):
    page = ready(visit(f"points?{state}"))
    assert 1 <= len(places(page)) <= 16


def test_settings_in_the_address_are_brought_into_their_range(visit):
    page = ready(visit("points?set=99,-99;0,0&iterations=1e9&momentum=7&step=-1&spread=x&seed=1.5"))
    assert places(page)[0] == (2.8, 2.8)  # down is up in a picture
    expect(page.locator("#points-code code")).to_contain_text("steps=200, lr=0.05, momentum=0.99")
    expect(page.locator("#points-code code")).to_contain_text("0.5 * torch.randn")

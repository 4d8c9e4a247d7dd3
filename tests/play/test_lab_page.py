"""The equivariance lab on a page of plain files: what it says is what `equivariance.check` says, and what one sees."""

import io
import re
from contextlib import redirect_stdout

import pytest
import torch
from playwright.sync_api import expect

FUNCTIONS = {"push_apart": 1, "sort_jacobian": 1, "deepsets": 1, "running_total": 1, "fs": 2, "sum": 2, "mean": 2}
VERDICTS = {
    **dict.fromkeys(["push_apart", "sort_jacobian", "fs"], "exclusively multiset-equivariant"),
    **dict.fromkeys(["deepsets", "sum", "mean"], "set-equivariant (and so multiset-equivariant)"),
    "running_total": "neither set- nor multiset-equivariant",
}


def numbers(text):
    return [float(number) for number in re.findall(r"-?[\d.]+", text)]


def ends(page):
    """Where the balls of each lane are in the end: slot by slot, relative to their lane."""
    expect(page.locator(".lanes.arrived")).to_be_attached()
    balls = page.locator(".lanes .ball").evaluate_all("all => all.map((ball) => ball.getAttribute('transform'))")
    at = [numbers(text) for text in balls]
    tops = page.locator(".lanes .slot rect").evaluate_all("all => all.map((rect) => +rect.getAttribute('y'))")
    n = len(at) // 2
    return [sorted((round(x), round(y - top)) for x, y in lane) for lane, top in ((at[:n], tops[0]), (at[n:], tops[n]))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_page_and_its_code_agree(visit, name):
    element = ",".join(["0.5"] * FUNCTIONS[name])
    other = ",".join(["-1"] * FUNCTIONS[name])
    page = visit(f"lab?f={name}&X={element};{other};{element}&P=2,0,1")
    expect(page.locator("#verdict")).to_have_text(VERDICTS[name])
    names = {}
    with redirect_stdout(io.StringIO()) as out:
        exec(page.locator("#lab-code code").text_content(), names)
    assert VERDICTS[name] in out.getvalue()
    X, P, f = names["X"], names["P"], names["f"]
    rows = page.locator("#lab-comparison tbody tr").evaluate_all(
        "all => all.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    shown = torch.tensor([numbers(row[2]) for row in rows], dtype=torch.float64)
    torch.testing.assert_close(f(X[P][None])[0], shown, atol=6e-3, rtol=0)
    p2 = names["report"].witness and names["report"].witness.p2
    cause = page.locator("#lab-cause").text_content()
    if names["report"].witness is None:
        assert "both lanes end alike" in cause
    elif p2 is None:
        assert "no P₂" in cause
    else:
        assert f"P₂ = {p2.tolist()} works" in cause


def test_balls_arrive_at_different_places_until_p2_is_used(visit, keep):
    page = visit("lab?f=push_apart&X=0.5;0.5;-1&P=2,1,0")
    first, second = ends(page)
    assert first != second
    expect(page.locator(".judged.wrong-word")).to_have_count(2)
    keep(page, "lab")
    page.locator("#lab-p2").click()
    expect(page.locator(".judged.wrong-word")).to_have_count(0)
    first, second = ends(page)
    assert first == second


def test_balls_of_a_set_equivariant_function_arrive_at_the_same_places(visit):
    page = visit("lab?f=deepsets&X=0.5;0.5;-1&P=2,1,0")
    first, second = ends(page)
    assert first == second
    expect(page.locator("#lab-second")).to_be_hidden()
    expect(page.locator(".judged.right-word")).to_have_count(3)


def test_the_balls_move_through_both_lanes(visit):
    page = visit("lab", reduced_motion="no-preference")
    expect(page.locator(".lanes.arrived")).to_be_attached()
    page.locator("#lab-moment").press("Home")
    expect(page.locator(".lanes.arrived")).to_have_count(0)
    page.locator("#lab-lanes .play").click()
    expect(page.locator(".lanes.arrived")).to_be_attached()


def test_elements_are_edited_and_the_verdict_follows(visit):
    page = visit("lab")
    expect(page.locator("#lab-cause")).to_contain_text("P₂ = [2, 0, 1] works")
    page.get_by_label("element 1, number 0").fill("3")
    page.get_by_label("element 1, number 0").press("Enter")
    expect(page.locator("#lab-cause")).to_contain_text("both lanes end alike")
    page.get_by_label("Duplicate element 0").click()
    expect(page.locator("#lab-comparison tbody tr")).to_have_count(4)
    page.locator("#lab-function").select_option("sum")
    expect(page.locator("#verdict")).to_have_text(VERDICTS["sum"])
    assert "f=sum" in page.url


@pytest.mark.parametrize(
    "state", ["f=nothing", "f=constructor", "X=1", "X=a;b", "X=1,2;3,4", "P=0,0,1", "P=9", "X=1e999;2"]
)
def test_whatever_stands_in_the_address_the_page_opens(visit, state):
    page = visit(f"lab?{state}")
    expect(page.locator("#verdict")).not_to_be_empty()
    expect(page.locator(".lanes.arrived")).to_be_attached()

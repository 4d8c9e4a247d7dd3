"""The two worked examples run, and the data they make are what they say."""

import math
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def digits():
    return runpy.run_path(str(ROOT / "examples/digits.py"))


@pytest.fixture(scope="module")
def molecules():
    return runpy.run_path(str(ROOT / "examples/molecules.py"))


def test_points_are_drawn_where_there_is_ink_and_in_proportion_to_it(digits):
    ink = torch.zeros(500, 8, 8)
    ink[:, 0, 2], ink[:, 7, 5] = 4.0, 12.0  # top row, third column; bottom row, sixth column
    x, y = digits["draw"](ink).unbind(-1)
    top = (y >= 0.75) & (x >= -0.5) & (x <= -0.25)
    bottom = (y <= -0.75) & (x >= 0.25) & (x <= 0.5)
    assert (top | bottom).all()
    assert (bottom.sum(1) == 18).all()  # of 24


def test_molecules_are_aligned_however_they_were_turned(molecules):
    from ase.collections import g2

    straight, turned = g2["CH3CH2OH"], g2["CH3CH2OH"]
    turned.rotate(40, (1, 2, 3))
    turned.translate((3, -1, 2))
    assert np.allclose(abs(molecules["aligned"](straight)), abs(molecules["aligned"](turned)), atol=1e-6)


def test_the_digits_run_from_images_to_figures(digits, tmp_path, capsys):
    numbers = digits["main"](quick=True, out=tmp_path / "digits")
    assert all(math.isfinite(number) and number >= 0 for number in numbers.values())
    assert numbers["two draws of one image, pixels apart"] < numbers["another image of its class, pixels apart"]
    assert numbers["read right: real sets"] > 0.5
    assert {path.name for path in (tmp_path / "digits").glob("*.png")} == {"digits-autoencoded.png", "digits-drawn.png"}
    assert "loss" in capsys.readouterr().out


def test_digits_that_were_found_are_counted(tmp_path):
    import json

    example = runpy.run_path(str(ROOT / "examples/digits_on_canvas.py"))
    lines = [[{"at": [10.0 * k + 5, 20.0], "digit": (i + k) % 10} for k in range(1 + i % 5)] for i in range(20)]
    truth, answers = tmp_path / "val.jsonl", tmp_path / "found.jsonl"
    truth.write_text("\n".join(json.dumps({"objects": things}) for things in lines))
    for things in lines:
        things[0]["at"][0] += 2.5
    lines[0][0]["at"][0] += 2.5  # now too far
    lines[1][0]["digit"] = (lines[1][0]["digit"] + 1) % 10
    answers.write_text("\n".join(json.dumps({"objects": [*things, things[0]]}) for things in lines))
    judged = example["judge"](truth, answers)
    count = sum(map(len, lines))
    assert judged["recall"] == pytest.approx((count - 2) / count)
    assert judged["precision"] == pytest.approx((count - 2) / (count + 20))


def test_the_molecules_run_from_a_data_folder_to_predictions(molecules, tmp_path):
    numbers = molecules["main"](quick=True, out=tmp_path / "molecules")
    assert 0 < numbers["trained molecules"]["element right"] <= 1  # most atoms are hydrogen or carbon, soon learned
    lines = (tmp_path / "molecules/data/train.jsonl").read_text().splitlines()
    assert len(lines) == 2 * 99
    assert (tmp_path / "molecules/molecules.png").exists()


@pytest.mark.parametrize("name", ["digits", "molecules"])
def test_the_pages_show_functions_that_the_examples_have(name):
    hook = runpy.run_path(str(ROOT / "docs/hooks/excerpts.py"))
    page = (ROOT / f"docs/examples/{name}.md").read_text(encoding="utf-8")
    shown = hook["on_page_markdown"](page)
    assert len(re.findall(r"^def \w+", shown, flags=re.M)) == len(hook["EXCERPT"].findall(page)) > 0

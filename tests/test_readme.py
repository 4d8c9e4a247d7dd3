"""What the README and the examples show can be typed in and works."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_python_block_of_the_readme_runs_in_order():
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", README, flags=re.M | re.S))
    assert blocks
    namespace: dict[str, object] = {}
    for block in blocks:
        # A traceback should point at the line of the README.
        padding = "\n" * README.count("\n", 0, block.start(1))
        exec(compile(padding + block[1], "README.md", "exec"), namespace)


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_of_the_readme_lead_somewhere(path):
    assert (ROOT / path).exists()


def test_the_readme_is_short_and_its_pictures_are_small():
    assert len(README.splitlines()) <= 120
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert len(pictures) == 2
    assert all((ROOT / picture).stat().st_size <= 2 * 2**20 for picture in pictures)


def test_the_autoencoder_example_learns(capsys):
    losses = runpy.run_path(str(ROOT / "examples/autoencode.py"))["train"](steps=30, width=32, batch=32)
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    assert "loss" in capsys.readouterr().out

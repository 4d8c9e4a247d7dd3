"""What the documentation shows can be typed in and works, and it names everything public."""

import json
import re
import runpy
import shutil
import tomllib
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def blocks(page: Path) -> list[str]:
    """The Python blocks of a page, each at the line it has there, so that a traceback points at it."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
    return ["\n" * text.count("\n", 0, block.start(1)) + block[1] for block in found]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_every_python_block_of_a_page_runs_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), namespace)


def test_the_reference_names_everything_public():
    import setpred

    written = runpy.run_path(str(DOCS / "hooks" / "reference.py"))["on_page_markdown"]
    reference = "\n".join(written(page.read_text(encoding="utf-8")) for page in (DOCS / "api").glob("*.md"))
    shown = set(re.findall(r"^::: setpred\.(\w+)", reference, flags=re.M))
    assert sorted(set(setpred.__all__) - shown) == [], "each needs a line ::: setpred.NAME on a page of docs/api"


@pytest.mark.parametrize("part", ["solver", "adjoint", "constraint", "init", "restart"])
def test_every_setting_of_a_part_is_in_the_words_of_its_class(part):
    from setpred.recipes import arguments, classes_of
    from setpred.tasks.parts import PARTS

    for cls in classes_of(PARTS[part]).values():
        words = "\n".join(base.__doc__ or "" for base in cls.__mro__ if base.__module__.startswith("setpred."))
        assert [name for name in arguments(cls) if not re.search(rf"\b{name}\b", words)] == [], cls


def test_lists_of_the_pages_are_made_from_the_code():
    import setpred
    from setpred.tasks import TASKS, find_task
    from setpred.tasks.catalogue import list_settings

    lists = runpy.run_path(str(DOCS / "hooks" / "listings.py"))["LISTS"]
    marks = [mark for page in PAGES for mark in re.findall(r"<!-- list: (\w+) -->", page.read_text(encoding="utf-8"))]
    assert sorted(marks) == sorted(lists), "each list stands on one page"
    expected = {
        "models": {name for task in TASKS for name in find_task(task).models},
        "presets": {name for task in TASKS for name in find_task(task).sizes},
        "settings": {setting.key for task in TASKS for setting in list_settings(task)},
        "api": set(setpred.__all__),
    }
    for name, named in expected.items():
        text = lists[name]()
        assert sorted(word for word in named if f"`{word}`" not in text) == []
    commands = lists["commands"]()
    assert "## setpred data import csv" in commands
    assert "setpred reproduce autoencoding n=2 d=2" in commands


def test_the_table_of_rooms_is_what_the_linter_holds():
    layers = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0][
        "layers"
    ]
    table = (DOCS / "design.md").read_text(encoding="utf-8").split("| room | what |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert [re.findall(r"\w+", row) for row in rows] == [re.findall(r"\w+", layer) for layer in layers]


def test_tables_in_the_results_become_sections_whose_links_lead_to_their_files(tmp_path):
    page = runpy.run_path(str(DOCS / "hooks" / "results.py"))["page"]
    (tmp_path / "clevr").mkdir()
    (tmp_path / "README.md").write_text("# Results\n\nSee [the table](clevr/table.md).\n")
    (tmp_path / "clevr" / "table.md").write_text("# Objects\n\n## Curves\n\n![curve](curve.png) [runs](table.json)\n")
    text = page(tmp_path)
    assert "[the table](#clevr-table)" in text
    assert '<details id="clevr-table" markdown="1">\n<summary>Objects</summary>' in text
    assert "### Curves" in text
    assert "![curve](clevr/curve.png) [runs](clevr/table.json)" in text


def test_a_formula_that_cannot_be_shown_stops_the_build():
    from mkdocs.exceptions import PluginError

    show = runpy.run_path(str(DOCS / "hooks" / "mathematics.py"))["on_page_content"]
    assert "<mfrac>" in show(r'<span class="arithmatex">\(\frac12\)</span>')
    with pytest.raises(PluginError, match="nosuchcommand"):
        show(r'<span class="arithmatex">\(\nosuchcommand x\)</span>')


def test_the_tutorial_is_a_notebook_that_runs():
    import nbformat

    hook = runpy.run_path(str(DOCS / "hooks" / "notebook.py"))
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    made = nbformat.reads(nbformat.writes(hook["notebook"](page, lambda name: f"data:{name}")), as_version=4)
    code = [cell.source for cell in made.cells if cell.cell_type == "code"]
    assert [block.strip() for block in blocks(DOCS / "tutorial.md")] == code
    prose = "\n".join(cell.source for cell in made.cells if cell.cell_type == "markdown")
    assert "(data:tutorial_found)" in prose
    assert "```" not in prose
    names: dict[str, object] = {}
    for number, cell in enumerate(code):
        exec(compile(cell, f"cell {number}", "exec"), names)


def test_numbers_of_the_task_pages_are_those_of_the_results():
    numbering = (DOCS / "tasks" / "numbering.md").read_text(encoding="utf-8")
    table = json.loads((DOCS.parent / "results" / "numbering-small" / "table.json").read_text(encoding="utf-8"))
    for cell in table["cells"]:
        for mean, std in ((cell["mean"], cell["std"]), (cell["published_mean"], cell["published_std"])):
            assert (f"{mean:.1f} ± {std:.1f}" if mean else "| 0 |") in numbering, cell["model"]
    autoencoding = (DOCS / "tasks" / "autoencoding.md").read_text(encoding="utf-8")
    for losses in runpy.run_path(str(DOCS / "figures" / "autoencoding_losses.py"))["losses"]().values():
        assert losses
        for size, loss in losses.items():
            mantissa, exponent = f"{loss:.1e}".split("e")
            assert f"{mantissa}e{int(exponent)}" in autoencoding, size


def test_the_search_of_the_site_works_on_pages_that_were_opened_as_files(tmp_path):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("there is no Chromium to open the page with")
    shutil.copy(DOCS / "assets" / "iframe-worker.js", tmp_path)
    (tmp_path / "worker.js").write_text('addEventListener("message", (sent) => postMessage(sent.data + 1));')
    (tmp_path / "page.html").write_text(
        '<script src="iframe-worker.js"></script><body><script>'
        'const worker = new Worker(new URL("worker.js", location));'
        "worker.addEventListener('message', (got) => { document.title = got.data; }); worker.postMessage(41);</script>"
    )
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = opened.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_function("document.title === '42'")
        opened.close()

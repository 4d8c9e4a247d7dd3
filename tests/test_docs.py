"""What the documentation shows can be typed in and works, and it names everything public."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

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

    reference = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    shown = set(re.findall(r"^::: setpred\.(\w+)", reference, flags=re.M))
    assert sorted(set(setpred.__all__) - shown) == [], "each needs a line ::: setpred.NAME on a page of docs/api"


def test_every_model_preset_and_setting_has_its_place():
    from setpred.recipes import arguments, classes_of
    from setpred.tasks import TASKS, find_task
    from setpred.tasks.parts import PARTS
    from setpred.tasks.settings import NAMES, flatten, to_dict

    page = (DOCS / "howto" / "train.md").read_text(encoding="utf-8")
    known = {key for task in map(find_task, TASKS) for key in flatten(to_dict(task.settings()))} - set(NAMES)
    known -= {key for key in known if key.startswith("constraint.")}  # as many as there are constraints
    for part in ("solver", "adjoint", "init", "restart"):
        classes = classes_of(PARTS[part])
        taken = {name: argument for cls in classes.values() for name, argument in arguments(cls).items()}
        known |= {f"{part}.{name}" for name, argument in taken.items() if not argument.required and name != "options"}
        assert [name for name in classes if name not in page] == []
    named = {name for task in map(find_task, TASKS) for name in (*task.models, *task.sizes)} | known
    assert sorted(name for name in named if f"`{name}`" not in page) == []
    assert set(re.findall(r"`((?:solver|adjoint|init|restart|net|optim|trainer|data)\.\w+)`", page)) == {
        key for key in known if "." in key
    }


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
    assert "## Objects {#clevr-table}" in text
    assert "### Curves" in text
    assert "![curve](clevr/curve.png) [runs](clevr/table.json)" in text


def test_a_formula_that_cannot_be_shown_stops_the_build():
    from mkdocs.exceptions import PluginError

    show = runpy.run_path(str(DOCS / "hooks" / "mathematics.py"))["on_page_content"]
    assert "<mfrac>" in show(r'<span class="arithmatex">\(\frac12\)</span>')
    with pytest.raises(PluginError, match="nosuchcommand"):
        show(r'<span class="arithmatex">\(\nosuchcommand x\)</span>')

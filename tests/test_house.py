"""The rules of the house that no linter knows."""

import ast
from collections import Counter
from pathlib import Path

SOURCES = sorted((Path(__file__).parent.parent / "src" / "setpred").rglob("*.py"))
# Renders that are stored, 50,000 at a time, are named by the files of data/scenes: these keep their names and imports.
TWICE = {"__init__.py", "clevr.py", "files.py", "threads.py"}


def test_a_file_is_at_most_300_lines():
    assert [str(path) for path in SOURCES if len(path.read_text(encoding="utf-8").splitlines()) > 300] == []


def test_no_two_files_have_one_name():
    names = Counter(path.name for path in SOURCES)
    assert {name for name, count in names.items() if count > 1} <= TWICE


def opens_text(call):
    """Whether a call reads or writes text in whatever encoding the machine prefers."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if any(word.arg == "encoding" for word in call.keywords):
        return False
    if name != "open":
        return name in ("read_text", "write_text")
    mode = [value.value for value in call.args if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    opener = call.func.value if isinstance(call.func, ast.Attribute) else None
    return not any("b" in word for word in mode) and getattr(opener, "id", "") not in ("Image", "os", "webbrowser")


def test_text_files_are_utf_8_on_every_machine():
    calls = ((path, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    found = [f"{path.name}:{node.lineno}" for path, node in calls if isinstance(node, ast.Call) and opens_text(node)]
    assert found == []

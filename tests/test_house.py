"""The rules of the house that no linter knows."""

import ast
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "setpred"
SOURCES = sorted(PACKAGE.rglob("*.py"))
ACROSS = {"hostile"}  # tests of what holds in every room


def test_a_file_is_at_most_300_lines():
    assert [str(path) for path in SOURCES if len(path.read_text(encoding="utf-8").splitlines()) > 300] == []


def test_no_two_files_have_one_name():
    names = Counter(path.name for path in SOURCES)
    assert {name for name, count in names.items() if count > 1} <= {"__init__.py"}


def test_tests_lie_in_the_folder_of_what_they_test():
    rooms = {path.parent.name for path in SOURCES if path.parent.parent == PACKAGE}
    folders = {path.parent.name for path in TESTS.glob("*/test_*.py")}
    assert folders - rooms == ACROSS
    assert rooms - folders == set()
    for test in TESTS.rglob("test_*.py"):
        homes = homes_of(test.stem.removeprefix("test_"))
        assert not homes or test.parent.relative_to(TESTS) in homes, f"{test} belongs into one of {homes}"


def homes_of(name):
    """Folders in which a module or a room of that name lies; the tests of a room may lie in it."""
    modules = [path.relative_to(PACKAGE) for path in SOURCES]
    rooms = [path.parent for path in modules if path.name == "__init__.py" and path.parent.name == name]
    return {path.parent for path in modules if path.stem == name} | {home for r in rooms for home in (r, r.parent)}


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

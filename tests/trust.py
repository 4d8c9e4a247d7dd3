"""What the long tests did, kept as `results/trust.json`: an entry a test, with its counts.

A test that is run again replaces its own entry and leaves the others, so a night may be run in parts; `remarks` in the
file are for what a person should know of it, and stay.
"""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from setpred.files import replacing


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--trust", type=Path, metavar="FILE", help="write what was tested, and how often, to this file")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--trust")
    if path is not None and not hasattr(config, "workerinput"):  # pytest-xdist's workers report to the one that writes
        config.pluginmanager.register(Record(path))


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[str, Any], None]:
    """`note("kills of a training", 50)` notes what a test did, in numbers or plain JSON values."""

    def append(name: str, count: Any) -> None:
        request.node.user_properties.append((name, count))

    return append


class Record:
    """Collects outcomes and counts, and writes them when the last test has ended."""

    def __init__(self, path: Path):
        from setpred.training.run_folder import commit  # here, because it loads Lightning

        self.path, self.commit = path, commit()  # now: the code may change during a long night
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        entry = self.tests.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0.0})
        entry["seconds"] = round(entry["seconds"] + report.duration, 1)
        if report.outcome != "passed":
            entry["outcome"] = report.outcome
        if report.user_properties:
            entry["counts"] = dict(report.user_properties)

    def pytest_sessionfinish(self) -> None:
        known = json.loads(self.path.read_text()) if self.path.exists() else {}
        made = {"date": date.today().isoformat(), "commit": self.commit}
        tests = known.get("tests", {}) | {name: entry | made for name, entry in self.tests.items()}
        with replacing(self.path) as temporary:
            record = known | {"command": "make nightly, whole or in parts", "tests": dict(sorted(tests.items()))}
            temporary.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")

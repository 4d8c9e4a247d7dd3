"""Lines of JSON read one at a time, every problem collected with its file and line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..values import read_json, short

SHOWN = 20
# A line is parsed in memory; 16 MB of JSON can take a few hundred MB as Python objects.
MAX_LINE = 1 << 24


class DataError(ValueError):
    """What is wrong with someone's data: `problems` are the first lines, `count` is how many there are."""

    # All but the first argument can be left out because data workers rebuild exceptions from their text.
    def __init__(self, where: object, problems: Sequence[str] = (), count: int | None = None) -> None:
        self.problems = list(problems)
        self.count = len(self.problems) if count is None else count
        if self.count <= 1:
            super().__init__(": ".join([str(where), *self.problems]))
        else:
            more = [f"and {self.count - len(problems)} more"] if self.count > len(problems) else []
            super().__init__("\n  ".join([f"{where}: {self.count} problems", *self.problems, *more]))


@dataclass
class Problems:
    """Collects problems; keeps the first 20 and counts the rest.

    >>> problems = Problems("my_data")
    >>> problems.add("train.jsonl", 3, "no objects: add them")
    >>> problems.check()
    Traceback (most recent call last):
    setpred.data.records.DataError: my_data: train.jsonl line 3: no objects: add them
    """

    where: object
    shown: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, file: str, line: int | None, text: str) -> None:
        self.count += 1
        if len(self.shown) < SHOWN:
            self.shown.append(f"{file}: {text}" if line is None else f"{file} line {line}: {text}")

    def take(self, error: DataError) -> None:
        """Adds those of another."""
        self.count += error.count
        self.shown += error.problems[: max(0, SHOWN - len(self.shown))]

    def check(self) -> None:
        """Raises if there was any."""
        if self.count:
            raise DataError(self.where, self.shown, self.count)


@dataclass(frozen=True)
class Record:
    """One line of a data file: where it is, and what it says."""

    file: str
    line: int
    offset: int
    content: dict[str, Any]


def parse(text: bytes) -> dict[str, Any]:
    """One JSON object; anything else is a `ValueError`.

    >>> parse(b'{"vector": [1]}')
    {'vector': [1]}
    """
    content = read_json(text)
    if not isinstance(content, dict):
        raise ValueError(f"{short(content)} is not an object: write {{...}} with an input and objects")
    return content


def read_records(path: Path, problems: Problems) -> Iterator[Record]:
    """The lines of a JSONL file, in constant memory; those that cannot be read go to `problems`."""
    try:
        file = path.open("rb")
    except OSError as error:
        problems.add(path.name, None, f"cannot be read ({error.strerror}): it must be in the folder")
        return
    with file:
        line, offset, empty = 0, 0, True
        while text := file.readline(MAX_LINE + 1):
            line += 1
            start = offset
            offset += len(text)
            if len(text) > MAX_LINE:
                problems.add(path.name, line, f"longer than {MAX_LINE >> 20} MB: split it into several examples")
                empty = False
                while text and not text.endswith(b"\n"):
                    text = file.readline(MAX_LINE)
                    offset += len(text)
                continue
            if not text.strip():
                continue
            empty = False
            try:
                content = parse(text)
            except ValueError as error:
                problems.add(path.name, line, str(error))
                continue
            yield Record(path.name, line, start, content)
        if empty:
            problems.add(path.name, None, "holds no examples: write one a line")

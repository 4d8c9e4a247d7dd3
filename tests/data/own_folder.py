"""A folder of one's own data, for tests that read one."""

import json

import pytest

from setpred.data.jsonl_folder import open_folder, schema_text
from setpred.data.records import DataError
from setpred.schema import Category, Real, Schema

SCHEMA = Schema({"at": Real(2, range=(0, 10)), "kind": Category("cat", "dog")}, size=3)
CAT = {"at": [1.0, 2.0], "kind": "cat"}
DOG = {"at": [9.0, 5.0], "kind": "dog"}


def write(root, train, val=None, schema=SCHEMA):
    """A folder of lines, each a dictionary or raw text."""
    for name, lines in (("train", train), ("val", val if val is not None else train[:1])):
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (root / f"{name}.jsonl").write_text("\n".join(texts) + "\n")
    if schema is not None:
        (root / "schema.yaml").write_text(schema_text(schema))
    return root


def problems_of(root):
    with pytest.raises(DataError) as caught:
        open_folder(root)
    return caught.value

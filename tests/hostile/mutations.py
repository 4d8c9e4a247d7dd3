"""Damage to files: what a broken disk, a wrong program or a person with bad intentions may leave in them."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]

ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    2**31,
    10**18,
    10**400,
    -0.0,
    1e-320,
    1e30,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "x" * 10_000,
    "\ud800",
    "a\0b",
    "../../../../etc/hostname",
    "/etc/hostname",
    [],
    [[]],
    [1.5, "x", None],
    {},
    {"type": "real"},
    {"class": "SetEncoder", "dim": 10**5, "hidden": 10**5, "latent": 10**5, "size": 10**5},
    DEEP,
]
WORDS = [
    b"99999999999999999999999",
    b"-1",
    b"0",
    b"1e999",
    b"-1e308",
    b"NaN",
    b"null",
    b"true",
    b'"x"',
    b"2020-99-99",
    b"!!python/object/apply:os.system [true]",
    b"*alias",
    b"1" * 5_000,
    b"30000",
]
ENCODINGS = ("utf-16", "utf-32", "utf-8-sig")


def mutate(content: bytes, rng: random.Random) -> bytes:
    """The content, damaged in one to three ways."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(KINDS)(content, rng)
    return content


def flip(content: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(rng.choice((1, 2, 8, 64))):
        if damaged:
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def overwrite(content: bytes, rng: random.Random) -> bytes:
    start, length = rng.randrange(len(content) + 1), rng.choice((1, 4, 8, 32))
    value = rng.choice((b"\0", b"\xff", b"\x7f", rng.randbytes(1)))
    return content[:start] + value * length + content[start + length :]


def truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def remove(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.choice((1, 2, 10, 100)) :]


def repeat(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start : start + rng.choice((1, 10, 100))] * rng.choice((2, 3, 500))


def insert(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return (
        content[:start] + rng.choice((rng.randbytes(8), b"\n", b"{", b"[" * 50_000, b'{"a":' * 5_000)) + content[start:]
    )


def other_number(content: bytes, rng: random.Random) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    return _replaced(content, found, rng)


def other_word(content: bytes, rng: random.Random) -> bytes:
    found = list(re.finditer(rb"\"[^\"\n]*\"|\b\w+\b", content))
    return _replaced(content, found, rng)


def reencode(content: bytes, rng: random.Random) -> bytes:
    return content.decode("utf-8", "replace").encode(rng.choice(ENCODINGS))


def other_value(content: bytes, rng: random.Random) -> bytes:
    """One value of a JSON file, or of one line of JSON, becomes another type, vanishes, or appears twice."""
    lines = content.splitlines(keepends=True)
    for candidate in (content, rng.choice(lines) if lines else b""):
        try:
            tree = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        changed = json.dumps(swap_value(tree, rng)).encode()
        return changed if candidate is content else content.replace(candidate, changed + b"\n", 1)
    return flip(content, rng)


KINDS: list[Callable[[bytes, random.Random], bytes]] = [
    flip,
    overwrite,
    truncate,
    remove,
    repeat,
    insert,
    other_number,
    other_number,
    other_word,
    reencode,
    other_value,
    other_value,
    other_value,
]


def _replaced(content: bytes, found: list[re.Match[bytes]], rng: random.Random) -> bytes:
    if not found:
        return flip(content, rng)
    start, end = rng.choice(found).span()
    return content[:start] + rng.choice(WORDS) + content[end:]


def swap_value(tree: Any, rng: random.Random) -> Any:
    """A tree of JSON values in which one becomes another type, vanishes, or gets another name."""
    places = _places(tree)
    if not places:
        return rng.choice(ODD)
    parent, key = rng.choice(places)
    action = rng.choice(("swap", "swap", "swap", "drop", "rename"))
    if action == "drop":
        del parent[key]
    elif action == "rename" and isinstance(parent, dict):
        parent[rng.choice(("", "x", "class", "id", "objects"))] = parent.pop(key)
    else:
        parent[key] = rng.choice(ODD)
    return tree


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Everything inside a tree, as the list or dictionary that holds it and its place there."""
    places: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
        for key in keys:
            places.append((node, key))
            waiting.append(node[key])
    return places

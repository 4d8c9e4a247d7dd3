"""Molecules of the G2 set: from a fingerprint, the multiset of atoms with their positions."""

from pathlib import Path
from typing import Any

import numpy as np

from ...schema import Category, Real, Schema
from . import draw, is_held_out

NEEDS = ("ase",)
ELEMENTS = ("H", "C", "N", "O", "F", "S", "Cl")
LARGEST = 12
"""Atoms."""
SCHEMA = Schema({"element": Category(*ELEMENTS), "at": Real(3, scale=2.5)}, size=LARGEST)
ABOUT = """\
Molecules of 2 to 12 atoms of H, C, N, O, F, S and Cl from the G2 set. The input is a fingerprint: how many atoms of
each element there are, and the eigenvalues of the Coulomb matrix (M. Rupp and others, Phys. Rev. Lett. 108, 058301,
2012), which do not depend on how the molecule lies. The objects are the atoms: element and position, in Å, from the
centre along the principal axes. Each molecule occurs many times, every time with its atoms moved by some 0.1 Å, and
with the fingerprint of that.

A good answer has every atom with its element and within 0.25 Å: `accuracy` is the fraction of molecules of which that
is true. New molecules from a hundred known ones are more than one can ask for; `score` says how near an answer comes.

Molecules are in train.jsonl or in val.jsonl by a hash of their name, so none that judges was trained on.

The geometries are those of the G2/97 set (L. A. Curtiss, K. Raghavachari, P. C. Redfern and J. A. Pople, J. Chem.
Phys. 106, 1063, 1997) as ASE brings them (LGPL 2.1 or later, https://ase-lib.org).
"""
MOVED = 0.1
"""Standard deviation of the displacement of an atom, Å."""
COPIES = {"train": 40, "val": 10}
JUDGING = 0.17


def make(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The lines of train.jsonl and val.jsonl."""
    from ase.collections import g2

    splits: dict[str, list[dict[str, Any]]] = {"train": [], "val": []}
    for name in sorted(g2.names):
        atoms = g2[name]
        if not 2 <= len(atoms) <= LARGEST or not set(atoms.symbols) <= set(ELEMENTS):
            continue
        split = "val" if is_held_out(name, JUDGING) else "train"
        rng = np.random.default_rng(int(draw(name) * 2**53))
        for copy in range(COPIES[split]):
            at = aligned(atoms.positions + MOVED * rng.standard_normal(atoms.positions.shape))
            objects = [
                {"element": symbol, "at": place}
                for symbol, place in zip(atoms.symbols, at.round(4).tolist(), strict=True)
            ]
            vector = fingerprint(list(atoms.symbols), atoms.numbers, at).round(4).tolist()
            splits[split].append({"id": f"{name} {copy}", "vector": vector, "objects": objects})
    return splits


def aligned(positions: np.ndarray) -> np.ndarray:
    """Positions `[atoms, 3]` from the centre along the principal axes, the heavier tail of each axis positive."""
    at = positions - positions.mean(0)
    at = at @ np.linalg.svd(at)[2].T
    return at * np.where((at**3).sum(0) < -1e-6, -1, 1)


def fingerprint(symbols: list[str], charges: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Counts of the elements, and the eigenvalues of the Coulomb matrix, largest first `[7 + LARGEST]`."""
    apart = np.linalg.norm(at[:, None] - at[None], axis=-1)
    np.fill_diagonal(apart, 1.0)
    matrix = charges[:, None] * charges[None] / apart
    np.fill_diagonal(matrix, 0.5 * charges**2.4)
    eigenvalues = np.sort(np.linalg.eigvalsh(matrix))[::-1]
    counts = [symbols.count(element) for element in ELEMENTS]
    return np.concatenate([counts, eigenvalues, np.zeros(LARGEST - len(symbols))])

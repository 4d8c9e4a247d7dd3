"""Small molecules as multisets of atoms: a data folder, a training and predictions, as with data of your own.

    python examples/molecules.py            minutes on one core; data, run, figure and numbers go to runs/molecules
    python examples/molecules.py --quick    seconds: only shows that everything runs

Needs ase, which brings the G2 collection, and what `setpred train` needs.
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ase import Atoms
from ase.collections import g2
from ase.data import covalent_radii

import setpred as sp
from setpred.data.jsonl_folder import open_folder
from setpred.tasks import make_settings
from setpred.training.run import train
from setpred.training.run_folder import load_run

COLOURS = {
    "H": "#8C8C8C",
    "C": "#000000",
    "N": "#0072B2",
    "O": "#D55E00",
    "F": "#009E73",
    "S": "#E69F00",
    "Cl": "#CC79A7",
}
ELEMENTS = list(COLOURS)
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
LARGEST = 12  # atoms
HELD_OUT = 20  # molecules that are never trained on
SCHEMA = f"""\
size: {LARGEST}
fields:
  element: {{type: category, names: {json.dumps(ELEMENTS)}}}
  at: {{type: real, dim: 3, scale: 1.0}}
"""


def aligned(atoms: Atoms) -> np.ndarray:
    """Positions `[atoms, 3]` from the centre along the principal axes, the heavier tail of each axis positive."""
    at = atoms.positions - atoms.positions.mean(0)
    at = at @ np.linalg.svd(at)[2].T
    return at * np.where((at**3).sum(0) < -1e-6, -1, 1)


def record(name: str, noise: np.random.Generator | None = None) -> dict[str, Any]:
    """A line of data: the atoms as vectors to read, and as objects to predict; with noise, each out of its place."""
    symbols, at = list(g2[name].symbols), aligned(g2[name])
    if noise is not None:
        at = at + noise.normal(scale=0.25, size=at.shape)
    at = at.round(4)
    one_hot = [[float(symbol == element) for element in ELEMENTS] for symbol in symbols]
    return {
        "set": [[*kind, *place] for kind, place in zip(one_hot, at.tolist(), strict=True)],
        "objects": [{"element": symbol, "at": place} for symbol, place in zip(symbols, at.tolist(), strict=True)],
    }


def make_folder(folder: Path, copies: int) -> tuple[list[str], list[str]]:
    """Write train.jsonl, val.jsonl and schema.yaml; returns the names of the trained and of the held-out molecules."""
    rng = np.random.default_rng(0)
    fit = [name for name in g2.names if 2 <= len(g2[name]) <= LARGEST and set(g2[name].symbols) <= set(ELEMENTS)]
    names = rng.permutation(sorted(fit)).tolist()
    known, new = names[HELD_OUT:], names[:HELD_OUT]
    folder.mkdir(parents=True)
    (folder / "schema.yaml").write_text(SCHEMA)
    for split, count in {"train": copies, "val": 2}.items():
        lines = [json.dumps(record(name, rng)) for name in known for _ in range(count)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return known, new


def judge(predictor: sp.SetPredictor, names: list[str]) -> tuple[dict[str, float], list[list[dict[str, Any]]]]:
    """How well undisturbed molecules come back, and what came back."""
    schema, records = predictor.schema, [record(name) for name in names]
    inputs, given = sp.pad_sets([torch.tensor(line["set"]) for line in records], size=LARGEST)
    target, mask = schema.encode_batch([line["objects"] for line in records])
    predictor.eval()
    with torch.no_grad():
        sets = predictor(inputs, given)
    pairs = sp.assign(torch.cdist(sets, target), target_mask=mask, prediction_mask=sets[..., -1] >= 0.5)
    example = torch.arange(len(records))[:, None]
    ours, true = sets[example, pairs.prediction], target[example, pairs.target]
    same = (schema.attributes(ours) == schema.attributes(true)).all(-1) & pairs.mask
    distance = (schema.position(ours) - schema.position(true)).norm(dim=-1)[pairs.mask]
    objects = predictor.predict(inputs, mask=given)
    formulas = [formula(found) == formula(line["objects"]) for found, line in zip(objects, records, strict=True)]
    numbers = {
        "element right": (same.sum() / mask.sum()).item(),
        "formula right": sum(formulas) / len(formulas),
        "median distance, Å": distance.median().item(),
        "within 0.2 Å": ((distance < 0.2).sum() / mask.sum()).item(),
    }
    return numbers, objects


def formula(objects: list[dict[str, Any]]) -> Counter[str]:
    return Counter(atom["element"] for atom in objects)


def main(quick: bool, out: Path) -> dict[str, dict[str, float]]:
    known, new = make_folder(out / "data", copies=2 if quick else 100)
    print(f"{len(known)} molecules to train on, {len(new)} held out; the first line of data:")
    print(open_folder(out / "data").train.record(0))

    # On the command line: setpred train data --preset quick optim.steps=5000 optim.batch=32 …
    changes = {"optim.steps": 5000, "optim.batch": 32, "net.hidden": 256, "net.latent": 256, "trainer.round": 500}
    if quick:
        changes = {"optim.steps": 100, "net.hidden": 32, "net.latent": 32, "trainer.round": 100}
    changes["solver.eval_steps"] = 40  # training takes 10: a trained decoder gains from a longer search
    train(make_settings(str(out / "data"), preset="quick", overrides=changes), out / "run", quiet=quick)
    predictor = load_run(out / "run")[1].predictor
    assert isinstance(predictor, sp.SetPredictor)

    seen, _ = judge(predictor, known)
    unseen, objects = judge(predictor, new)
    numbers = {"trained molecules": seen, "held-out molecules": unseen}
    for name, values in numbers.items():
        print(name, {key: round(value, 3) for key, value in values.items()})
    seconds = time.process_time()
    print(f"processor seconds {seconds:.0f}")
    (out / "numbers.json").write_text(json.dumps({**numbers, "processor seconds": seconds}, indent=2) + "\n")
    figure(new, objects, out / "molecules.png")
    return numbers


def figure(names: list[str], objects: list[list[dict[str, Any]]], path: Path) -> None:
    """Molecules seen along their thinnest axis: true atoms as rings with their bonds, predicted ones as named discs."""
    import matplotlib.pyplot as plt

    shown = sorted(zip(names, objects, strict=True), key=lambda pair: len(g2[pair[0]]))[-15:]
    figure, axes = plt.subplots(3, 5, figsize=(10, 6.2), layout="constrained")
    for ax, (name, atoms) in zip(axes.flat, shown, strict=True):
        true, at = g2[name], aligned(g2[name])
        radius = covalent_radii[true.numbers]
        apart = np.linalg.norm(at[:, None] - at[None], axis=-1)
        for i, j in zip(*np.nonzero(np.triu(apart < 1.25 * (radius[:, None] + radius[None]), 1)), strict=True):
            ax.plot(*at[[i, j], :2].T, color="#BBBBBB", linewidth=1.5, zorder=1)
        edges = [COLOURS[symbol] for symbol in true.symbols]
        ax.scatter(*at[:, :2].T, s=330, facecolors="white", edgecolors=edges, linewidths=1.6, zorder=2)
        for atom in sorted(atoms, key=lambda atom: atom["at"][2]):
            x, y, _ = atom["at"]
            ax.scatter(x, y, s=120, color=COLOURS[atom["element"]], edgecolors="white", linewidths=0.6, zorder=3)
            ax.text(x, y, atom["element"], color="white", size=6.5, ha="center", va="center_baseline", zorder=4)
        ax.set_title(true.get_chemical_formula(mode="hill").translate(SUBSCRIPTS), fontsize=10)
        ax.set(xlim=(-3, 3), ylim=(-2.8, 2.8), aspect="equal")
        ax.axis("off")
    figure.savefig(path, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny training, in seconds")
    parser.add_argument("--out", type=Path, default=Path("runs/molecules"))
    main(**vars(parser.parse_args()))

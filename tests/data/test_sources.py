"""Data from installed packages: whole folders, no leak from what judges, and what their README says."""

import json
import sys

import numpy as np
import pytest

from setpred.data.jsonl_folder import open_folder
from setpred.data.sources import SOURCES, chords, find_source, make_source
from setpred.errors import UsageError


def lines(folder, split):
    return [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()]


def test_digits_on_a_canvas_are_where_they_are_said_to_be(tmp_path):
    make_source("digits", tmp_path / "digits")
    folder = open_folder(tmp_path / "digits")
    assert (len(folder.train), len(folder.val)) == (2_000, 400)
    assert folder.schema.pixel_fields == ["at"]
    assert folder.inputs.shape == (3, 64, 64)
    image, sets, _ = folder.train[0]
    for thing in folder.schema.in_pixels(1 / 64).decode(sets):
        x, y = (int(number) for number in thing["at"])
        assert image[:, y - 6 : y + 6, x - 6 : x + 6].max() > 0.8  # there is ink


def test_molecules_that_judge_were_never_trained_on(setpred, tmp_path):
    code, out, _ = setpred("data", "molecules", "--out", "molecules")
    assert (code, "examples to train on" in out) == (0, True)
    folder = tmp_path / "molecules"
    trained, judging = ({line["id"].rsplit(" ", 1)[0] for line in lines(folder, split)} for split in ("train", "val"))
    assert trained.isdisjoint(judging)
    assert len(trained) > 3 * len(judging) > 30
    for line in lines(folder, "val")[:20]:
        assert sum(line["vector"][:7]) == len(line["objects"])  # the fingerprint counts the atoms
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "| mean set |" in readme
    assert "LGPL" in readme
    assert (folder / "examples.png").stat().st_size > 10_000
    code, _, err = setpred("data", "molecules", "--out", "molecules")
    assert (code, "is never overwritten" in err) == (2, True)


def test_a_folder_appears_with_its_readme_or_not_at_all(setpred, monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("setpred.tasks.trivial.trivial_scores", interrupted)  # the last that README.md needs
        assert setpred("data", "molecules", "--out", "molecules")[0] != 0
    assert list(tmp_path.iterdir()) == []


def test_chords_hold_unisons_and_a_spectrum_with_the_overtones_of_their_notes(monkeypatch, tmp_path):
    some = []
    for name, score in chords.chorales():
        some.append((name, score))
        if len(some) == 12:
            break
    monkeypatch.setattr(chords, "chorales", lambda: iter(some))
    splits = chords.make(tmp_path)
    pieces = [{line["id"].split(" beat ")[0] for line in splits[split]} for split in ("train", "val")]
    assert pieces[0].isdisjoint(pieces[1])
    examples = splits["train"] + splits["val"]
    assert all(not chords.SCHEMA.problems(line["objects"]) for line in examples)
    unisons = [line for line in examples if len({json.dumps(note) for note in line["objects"]}) < len(line["objects"])]
    assert len(unisons) > len(examples) / 100
    alone = chords.spectrum([48], np.random.default_rng(0))
    loudest = sorted(np.argsort(alone)[-3:])
    assert loudest == [12, 24, 31]  # the note, its octave, and the fifth above


def test_a_missing_package_or_a_damaged_file_is_one_line(setpred, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ase", None)
    code, _, err = setpred("data", "molecules", "--out", "m")
    assert (code, err.count("\n")) == (2, 1)
    assert "the package ase, which is missing: pip install 'setpred[examples]'" in err
    assert not (tmp_path / "m").exists()
    damaged = tmp_path / "bwv1.mxl"
    damaged.write_bytes(b"PK no archive")
    monkeypatch.setattr("music21.corpus.getComposer", lambda name: [damaged])
    with pytest.raises(UsageError, match=r"bwv1.mxl cannot be read \(.*\): install music21 again"):
        make_source("chords", tmp_path / "chords")
    with pytest.raises(UsageError, match="unknown data 'cords': did you mean chords"):
        find_source("cords")
    assert set(SOURCES) == {"chords", "digits", "molecules"}

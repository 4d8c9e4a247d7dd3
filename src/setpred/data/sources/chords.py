"""Chords of Bach's chorales: from what a microphone would give, the multiset of the notes that sound."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import UsageError
from ...schema import Category, Schema
from . import draw, is_held_out

NEEDS = ("music21",)
NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
OCTAVES = (2, 3, 4, 5)
VOICES = 4
SCHEMA = Schema({"pitch": Category(*NAMES), "octave": Category(*OCTAVES)}, size=VOICES)
ABOUT = """\
Chords of the chorales of Johann Sebastian Bach in four voices, as the corpus of music21 has them. A line is one beat
at which some voice moves. The input is a spectrum: the loudness in each of 84 semitones from C2 on, made of the notes
with seven overtones each, of different loudness, and of noise. The objects are the notes that sound, each a pitch and
an octave. Two voices on one note (a unison) are two equal objects, and only the loudness tells.

A good answer has every note of the chord, and no other: `accuracy` is the fraction of chords of which that is true.

Chorales are in train.jsonl or in val.jsonl by a hash of their name, so no chord of a chorale that judges was trained
on.

The corpus is part of music21 (BSD licence, https://www.music21.org); the music is in the public domain. The spectra
are computed here: no recording is behind them.
"""
LOWEST, BINS = 36, 84
OVERTONES = 8
"""Of a note, with the note itself."""
DAMPING = 0.7
"""Each overtone is this much softer than the one before it."""
UNEVEN = 0.15
"""Standard deviation of the logarithm of an overtone's loudness."""
NOISE = 0.03
JUDGING = 0.12


def make(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The lines of train.jsonl and val.jsonl."""
    splits: dict[str, list[dict[str, Any]]] = {"train": [], "val": []}
    for name, score in chorales():
        split = splits["val" if is_held_out(name, JUDGING) else "train"]
        for beat, notes in chords(score):
            label = f"{name} beat {beat}"
            rng = np.random.default_rng(int(draw(label) * 2**53))
            objects = [{"pitch": NAMES[note % 12], "octave": note // 12 - 1} for note in notes]
            split.append({"id": label, "vector": spectrum(notes, rng).round(3).tolist(), "objects": objects})
    return splits


def chorales() -> Iterator[tuple[str, Any]]:
    """The scores in four parts, each with its name."""
    from music21 import corpus

    stored = {path.stem: path for path in sorted(corpus.getComposer("bach"), reverse=True)}  # some in two formats
    for name, path in sorted(stored.items()):
        try:
            score = corpus.parse(path)
        except Exception as error:  # a damaged file can be anything
            raise UsageError(f"{path} cannot be read ({type(error).__name__}): install music21 again") from None
        if len(getattr(score, "parts", ())) == VOICES:
            yield name, score


def chords(score: Any) -> Iterator[tuple[int, list[int]]]:
    """Beats at which the sounding notes change, and their MIDI numbers, highest voice first."""
    parts = [
        [(float(n.offset), float(n.offset + n.quarterLength), p.midi) for n in part.flatten().notes for p in n.pitches]
        for part in score.parts
    ]
    before: list[int] = []
    for beat in range(int(max((end for part in parts for _, end, _ in part), default=0))):
        notes = [midi for part in parts for start, end, midi in part if start <= beat < end]
        fits = all(note // 12 - 1 in OCTAVES for note in notes) and 1 <= len(notes) <= VOICES
        if fits and notes != before:
            yield beat, notes
        before = notes


def spectrum(notes: list[int], rng: np.random.Generator) -> np.ndarray:
    """Loudness by semitone `[BINS]`: what the notes' overtones give together, on a logarithmic scale.

    >>> rng = np.random.default_rng(0)
    >>> quiet, loud = (spectrum(notes, rng)[60 - LOWEST] for notes in ([60], [60, 60]))
    >>> bool(loud > quiet)
    True
    """
    order = np.arange(OVERTONES)
    above = np.round(12 * np.log2(order + 1)).astype(int)
    power = np.zeros(BINS)
    for note in notes:
        loudness = DAMPING**order * np.exp(UNEVEN * rng.standard_normal(OVERTONES))
        heard = note - LOWEST + above
        np.add.at(power, heard[heard < BINS], loudness[heard < BINS] ** 2)  # sounds out of step add up in power
    return np.log1p(10 * np.abs(np.sqrt(power) + NOISE * rng.standard_normal(BINS)))

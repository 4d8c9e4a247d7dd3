"""Real data from packages that install: each source becomes a folder to train on.

A source is a module with `NEEDS`, `ABOUT`, `SCHEMA` and `make`, and its line in the table.
"""

SOURCES = {
    "chords": ("setpred.data.sources.chords", "The notes of chords from their spectra: Bach's chorales (music21)."),
    "digits": ("setpred.data.sources.canvas_digits", "Handwritten digits in pictures (scikit-learn)."),
    "molecules": ("setpred.data.sources.g2_molecules", "The atoms of molecules from a fingerprint: G2 (ASE)."),
}
"""The module of each source, and what it is, in a sentence."""

__all__ = ["SOURCES"]

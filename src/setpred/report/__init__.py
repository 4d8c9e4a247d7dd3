"""One self-contained HTML page about any runs: curves, inner optimisation, examples, failures, comparisons."""

from .page import report

__all__ = ["report"]

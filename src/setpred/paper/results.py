"""Results to commit: the table in every format, and the learning curve of each run; small files only."""

from pathlib import Path

from ..files import replacing
from .tables import Comparison
from .writers import WRITERS, write


def keep(comparison: Comparison, folder: Path) -> list[Path]:
    """Write `folder/table.{md,tex,csv,json}` and `folder/curves/RUN.csv`; returns the files written.

    The JSON file says for each run the command, commit, seed, seconds and hardware, failures included.
    """
    written = []
    for suffix in WRITERS:
        written.append(folder / f"table{suffix}")
        write(comparison, written[-1])
    for outcome in comparison.outcomes:
        curve = outcome.run.folder / "metrics.csv"
        if outcome.status != "unfinished" and curve.exists():
            written.append(folder / "curves" / f"{outcome.run.name}.csv")
            with replacing(written[-1]) as temporary:
                temporary.write_bytes(curve.read_bytes())
    return written

"""A comparison as Markdown, LaTeX, CSV and JSON; each names the command, the commit, the hardware and the seconds."""

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..files import replacing
from .published import Table
from .scheduler import clock
from .tables import Comparison, Row


def markdown(comparison: Comparison) -> str:
    table = aligned(_header(comparison.plan.table), [_texts(comparison, row) for row in comparison.rows])
    notes = "\n".join(f"- {note}" for note in _notes(comparison))
    return f"{table}\n\n{notes}\n"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """A Markdown table whose columns also stand under each other at a terminal; those of `numbers` end together.

    >>> print(aligned(["model", "loss"], [["idspn", "12"], ["dspn", "3"]], numbers=["loss"]))
    | model | loss |
    |-------|-----:|
    | idspn |   12 |
    | dspn  |    3 |
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    right = [name in numbers for name in header]
    rule = ["-" * (width + 1) + (":" if end else "-") for width, end in zip(widths, right, strict=True)]
    lines = [
        [
            f" {text.rjust(width) if end else text.ljust(width)} "
            for text, width, end in zip(row, widths, right, strict=True)
        ]
        for row in (header, *rows)
    ]
    return "\n".join(f"|{'|'.join(line)}|" for line in (lines[0], rule, *lines[1:]))


def latex(comparison: Comparison) -> str:
    """A tabular for the booktabs package."""
    header = _header(comparison.plan.table)
    lines = [" & ".join(map(_escaped, _texts(comparison, row))) + r" \\" for row in comparison.rows]
    return "\n".join(
        [
            *(f"% {note}" for note in _notes(comparison)),
            rf"\begin{{tabular}}{{{'l' * len(header)}}}",
            r"\toprule",
            " & ".join(map(_escaped, header)) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def as_csv(comparison: Comparison) -> str:
    """One line per cell; the origin of the numbers is repeated in each, so that lines can be moved."""
    text = io.StringIO()
    rows = [{**_facts(row), **_origin(comparison, [row])} for row in comparison.rows]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_json(comparison: Comparison) -> str:
    """Everything, down to each run."""
    whole = {
        "table": comparison.plan.table.name,
        **_origin(comparison, comparison.rows),
        "notes": _notes(comparison),
        "cells": [{**_facts(row), "runs": [_run_facts(o) for o in row.outcomes]} for row in comparison.rows],
    }
    return json.dumps(without_nan(whole), indent=2, ensure_ascii=False) + "\n"


WRITERS: dict[str, Callable[[Comparison], str]] = {".md": markdown, ".tex": latex, ".csv": as_csv, ".json": as_json}


def check_names(paths: Sequence[Path]) -> None:
    """Refuse a file whose ending names no format, before any work is done."""
    for path in paths:
        if path.suffix not in WRITERS:
            raise UsageError(f"{path} has no format: end it with {', '.join(WRITERS)}")


def write(comparison: Comparison, path: Path) -> None:
    """In the format of the file's ending."""
    check_names([path])
    with replacing(path) as temporary:
        temporary.write_text(WRITERS[path.suffix](comparison), encoding="utf-8")


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


def _header(table: Table) -> list[str]:
    beside = ["by the other rule"] * any(cell.beside for cell in table.cells)
    return ["model (paper)", "ours", *table.axes, "published", "obtained", *beside, "seeds", "verdict"]


def _texts(comparison: Comparison, row: Row) -> list[str]:
    cell, table = row.cell, comparison.plan.table
    loss = table.lower_is_better
    question_mark = "" if cell.certain else "?"
    published = table.missing if cell.mean is None else spread(cell.mean, cell.std, loss) + question_mark
    obtained = "–" if row.mean is None else spread(row.mean, row.std, loss)
    extra = [f"{row.count(status)} {status}" for status in ("failed", "unfinished") if row.count(status)]
    seeds = f"{len(row.values)}" + (f" ({', '.join(extra)})" if extra else "")
    axes = [f"{value:g}" for value in cell.at.values()]
    beside = ["–" if row.beside is None else spread(row.beside, None, loss)] * bool(cell.beside)
    return [cell.model, row.ours, *axes, published, obtained, *beside, seeds, row.verdict or "–"]


def spread(mean: float, std: float | None, loss: bool) -> str:
    """
    >>> spread(5.71e-4, 9.2e-5, loss=True), spread(96.8, None, loss=False)
    ('5.7e-4 ± 9e-5', '96.8')
    """

    def short(number: float, digits: int) -> str:
        if not loss:
            return f"{number:.1f}"
        base, _, exponent = f"{number:.{digits}e}".partition("e")
        return f"{base}e{int(exponent)}" if exponent else base

    return short(mean, 1) + ("" if std is None else f" ± {short(std, 0)}")


def _notes(comparison: Comparison) -> list[str]:
    plan = comparison.plan
    notes = [
        f"command: {plan.command}",
        f"commit: {', '.join(comparison.commits) or 'none'}; hardware: {', '.join(comparison.hardware) or 'none'}; "
        f"training time of all runs: {comparison.seconds:.0f} s ({clock(comparison.seconds)})",
        "verdict: our mean over seeds against the published mean ± 2 standard deviations "
        f"({plan.table.seeds} seeds for most); – where the paper is not clear, or the data are not the paper's",
    ]
    if plan.departures:
        notes.append(f"not the published protocol: {', '.join(plan.departures)}")
    if plan.table.note:
        notes.append(plan.table.note)
    if any(not row.cell.certain for row in comparison.rows):
        notes.append("?: the paper does not say in which column this number stands")
    notes += [f"failed: {o.run.name}: {o.reason}" for o in comparison.outcomes if o.status == "failed"]
    return [*notes, *comparison.remarks]


def _facts(row: Row) -> dict[str, Any]:
    cell = row.cell
    return {
        "model": cell.model,
        "ours": row.ours,
        **cell.at,
        "metric": cell.metric,
        "published_mean": cell.mean,
        "published_std": cell.std,
        "published_certain": cell.certain,
        "mean": row.mean,
        "std": row.std,
        **({"other_metric": cell.beside, "other_mean": row.beside} if cell.beside else {}),
        "seeds": len(row.values),
        "failed": row.count("failed"),
        "unfinished": row.count("unfinished"),
        "verdict": row.verdict or None,
    }


def _origin(comparison: Comparison, rows: Sequence[Row]) -> dict[str, Any]:
    part = Comparison(comparison.plan, tuple(rows))
    return {
        "protocol": ", ".join(comparison.plan.departures) or "published",
        "command": comparison.plan.command,
        "commit": ", ".join(part.commits),
        "hardware": "; ".join(part.hardware),
        "seconds": round(part.seconds, 1),
    }


def _run_facts(outcome: Any) -> dict[str, Any]:
    kept = ("steps", "seconds", "metrics", "commit", "hardware", "versions")
    return {
        "name": outcome.run.name,
        "seed": outcome.run.seed,
        "status": outcome.status,
        **({"reason": outcome.reason} if outcome.reason else {}),
        "command": outcome.run.command,
        **{key: outcome.result[key] for key in kept if key in outcome.result},
    }


def without_nan(value: Any) -> Any:
    """NaN is not JSON: a number that is none becomes its name."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    return [without_nan(item) for item in value] if isinstance(value, list) else value


def _escaped(text: str) -> str:
    replaced = {"±": r"$\pm$", "σ": r"$\sigma$", "–": "--", "&": r"\&", "%": r"\%", "_": r"\_"}
    return "".join(replaced.get(letter, letter) for letter in text)

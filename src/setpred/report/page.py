"""The report: from run folders to one HTML page."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ..errors import UsageError
from ..files import replacing
from ..views.style import style
from .markup import Drawing, Section, document, paragraph
from .runs import Predictions, Run, grouped, in_order, predict_examples, read_run, runs_below
from .sections import compared, examples, failures, inner, learning, overview
from .verdict import goals, headline


def report(
    runs: Iterable[Path],
    out: Path,
    figures: Path | None = None,
    title: str = "Set prediction report",
    more: Sequence[Callable[[], Section]] = (),
    first: Sequence[Callable[[], Section]] = (),
) -> Path:
    """Write one self-contained page about any runs, finished or not, and return where it is.

    Args:
        runs: run folders, or folders of run folders.
        out: the HTML file.
        figures: a folder for the figures as PNG files as well.
        title: the heading of the page.
        more: further sections, each drawn when the page is.
        first: sections that come before all others.
    """
    paths = list(dict.fromkeys(run for path in runs for run in runs_below(Path(path))))
    if not paths:
        raise UsageError("there is no run to report on: name one or more run folders")
    if out.is_dir():
        raise UsageError(f"{out} is a folder: name the HTML file to write")
    read = in_order([read_run(path) for path in paths])
    shown, trouble = gather_all(read)
    with style():
        sections = [overview(read), compared(read), learning(read), inner(shown), examples(shown), failures(shown)]
        sections += [section() for section in more]
        sections[0].blocks += [paragraph(text, quiet=True) for text in trouble]
        sections = [section() for section in first] + sections
        sections = [section for section in sections if section.blocks]
        page = document(title, headline(read), lead(read), sections, footer(read))
        if figures is not None:
            save_figures(sections, figures)
    with replacing(out) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return out


def gather_all(runs: Sequence[Run]) -> tuple[list[Predictions], list[str]]:
    """Predictions of the first finished seed of each setting, and what could not be predicted."""
    shown, trouble = [], []
    for group in grouped((run for run in runs if run.finished), lambda run: run.setting):
        try:
            predictions = predict_examples(group[0])
        except ValueError as error:  # a trained model may hold NaN, or its weights be damaged: the rest still counts
            trouble.append(f"{group[0].path.name} is not shown in pictures: {error}")
            continue
        if predictions is not None:
            shown.append(predictions)
    return shown, trouble


def save_figures(sections: Sequence[Section], folder: Path) -> None:
    drawings = [block for section in sections for block in section.blocks if isinstance(block, Drawing)]
    for drawing in drawings:
        for number, figure in enumerate(drawing.panels, start=1):
            with replacing(folder / f"{drawing.name}-{number}.png") as temporary:
                figure.savefig(temporary, format="png", dpi=160)


def lead(runs: Sequence[Run]) -> str:
    """The tasks, and what is on the page."""
    tasks = ", ".join(dict.fromkeys(run.task for run in runs))
    settings = len(grouped(runs, lambda run: run.setting))
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    several = f" of {settings} settings" if settings > 1 else ""
    seeds = " Pictures are of the first seed of each setting." if settings < len(runs) else ""
    return " ".join([*goals(runs), f"This page shows {count}{several}: {tasks}.{seeds}"])


def footer(runs: Sequence[Run]) -> str:
    """Where the numbers come from."""
    results = [run.result for run in runs if run.finished]
    facts = []
    for name in ("hardware", "commit"):
        values = list(dict.fromkeys(str(result[name]) for result in results if result.get(name)))
        if values:
            facts.append(f"{name} {'; '.join(values)}")
    versions = dict.fromkeys(f"{name} {v}" for result in results for name, v in result.get("versions", {}).items())
    return " · ".join([*facts, *versions]) or "No run has finished."

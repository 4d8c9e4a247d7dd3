"""The results page is `results/` as it stands when the site is built: its README, its tables, its benchmark."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from posixpath import normpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from setpred.paper.coverage import Standing, compare_all, plan_paper, read_kept, summary

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results"
SHOWN = {".png", ".svg", ".csv", ".json", ".tex"}

Columns = dict[str, Callable[[dict[str, Any]], str]]
SETTING: Columns = {"setting": lambda row: row["case"], "iterations": lambda row: f"{row['steps']:,}"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page, and the files that it may link to under their own names."""
    for path in sorted(path for path in RESULTS.rglob("*") if path.suffix in SHOWN):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    files.append(File.generated(config, "results/index.md", content=page(RESULTS, coverage())))
    return files


def coverage() -> str:
    """How much of the paper the kept tables hold."""
    known = read_kept(RESULTS)
    standing = Standing(compare_all(plan_paper(RESULTS / "runs"), known), known)
    return f"## How much of the paper stands\n\n{summary(standing)}"


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Leave headings inside a folded block out of the table of contents: there they would lead to something unseen."""
    if page.file.src_uri == "results/index.md":
        for section in page.toc:
            for heading in section.children:
                heading.children = []
    return html


def page(results: Path, *more: str) -> str:
    """The whole page, in Markdown; what is `more` comes before the tables."""
    sections = [
        (results / "README.md").read_text(encoding="utf-8"),
        *more,
        "## All tables\n\nA table has the name of its folder in `results/`.",
    ]
    for path in sorted(results.glob("*/**/*.md")):
        sections.append(_section(path.relative_to(results), path.read_text(encoding="utf-8")))
    bench = results / "bench" / "bench.json"
    if bench.exists():
        sections.append(_bench(json.loads(bench.read_text(encoding="utf-8"))))
    # A table that has become a section of this page is linked to as one.
    return re.sub(r"\]\(([^):]+)\.md\)", lambda link: f"](#{_anchor(normpath(link[1]))})", "\n\n".join(sections))


def _section(path: Path, text: str) -> str:
    title, body = re.match(r"(?:# ([^\n]*)\n)?(.*)", text, flags=re.S).groups()  # type: ignore[union-attr]
    title = title or path.with_suffix("").as_posix().removesuffix("/table")
    body = re.sub(r"^#", "##", body, flags=re.M)
    body = re.sub(r"\]\((?![a-z]+:|#|/)", f"]({path.parent.as_posix()}/", body)
    return _folded(title, body, _anchor(path.with_suffix("").as_posix()))


def _folded(summary: str, body: str, anchor: str) -> str:
    """A block that a click opens, since the page gives conclusions first."""
    summary = summary.replace("`", "")
    return f'<details id="{anchor}" markdown="1">\n<summary>{summary}</summary>\n\n{body}\n\n</details>'


def _anchor(name: str) -> str:
    return re.sub(r"\W+", "-", name).lower()


def _bench(bench: dict[str, Any]) -> str:
    machine = bench["machine"]
    loop: Columns = SETTING | {
        "matrix products alone": lambda row: f"{row['floor_ms']:.0f} ms",
        "inner loop ÷ products": lambda row: f"{row['over_floor']:.2f}",
        "naive loop ÷ products": lambda row: f"{row['naive_over_floor']:.2f}",
    }
    step: Columns = SETTING | {
        "training step": lambda row: f"{row['ours_ms']:.0f} ms",
        "naive ÷ ours": lambda row: f"{row['naive_over_ours']:.2f}",
        "naive DSPN ÷ ours": lambda row: f"{row['unrolled_over_ours']:.2f}",
        "our DSPN ÷ ours": lambda row: f"{row['dspn_over_ours']:.2f}",
    }
    memory: Columns = {
        "iterations": SETTING["iterations"],
        "iDSPN": lambda row: f"{row['idspn_bytes'] / 2**20:.1f} MiB",
        "DSPN": lambda row: "–" if row.get("dspn_bytes") is None else f"{row['dspn_bytes'] / 2**20:.1f} MiB",
    }
    body = [
        f"{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}, float32, batch 128. "
        "Smaller is better; 1 would be a loop that costs nothing beside its matrix products.",
        _table(loop, bench["inner_loop"]),
        "A training step: decoding, matching and the backward pass. *Ours* is iDSPN, *naive* the same model with "
        "autograd, `torch.sort`, `torch.optim.SGD` and SciPy's matching.",
        _table(step, bench["training_step"]),
        "The most memory that the tensors of a training step occupy at one time.",
        _table(memory, bench["memory"]),
    ]
    return _folded("Speed and memory", "\n\n".join(body), "bench")


def _table(columns: Columns, rows: Sequence[dict[str, Any]]) -> str:
    lines = [list(columns), ["---", *["---:"] * (len(columns) - 1)]]
    lines += [[cell(row) for cell in columns.values()] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

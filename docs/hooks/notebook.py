"""The tutorial as a notebook, made from its page when the site is built: it is written once."""

import base64
import io
import re
import runpy
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from setpred.views.style import style

DOCS = Path(__file__).parent.parent
CODE = re.compile(r"^```python\n(.*?)^```$", flags=re.M | re.S)
PRINTED = re.compile(r"^```text\n.*?^```\n", flags=re.M | re.S)
FIGURE = re.compile(r"!\[([^\]]*)\]\(figures/(\w+)\.svg\)")
LINK = re.compile(r"\]\((?!https?:|data:)([\w/.-]+)\.md([^)]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the notebook beside the page, with its pictures."""
    content = nbformat.writes(notebook((DOCS / "tutorial.md").read_text(encoding="utf-8"), picture))
    files.append(File.generated(config, "tutorial.ipynb", content=content))
    return files


def notebook(markdown: str, draw: Any) -> Any:
    """Cells in the order of the page. Printed output is left out: the reader's own run prints it."""
    text = PRINTED.sub("", markdown).replace("The same tutorial is [a notebook](tutorial.ipynb) to download. ", "")
    text = FIGURE.sub(lambda figure: f"![{figure[1]}]({draw(figure[2])})", text)
    text = LINK.sub(r"](\1.html\2)", text)
    cells = []
    for number, part in enumerate(CODE.split(text)):  # prose and code take turns
        if part.strip():
            cells.append((new_code_cell if number % 2 else new_markdown_cell)(part.strip(), id=f"cell-{number}"))
    made = new_notebook(cells=cells)
    nbformat.validate(made)
    return made


def picture(name: str) -> str:
    """A figure of the documentation inside an address."""
    with style():
        content = io.BytesIO()
        pictures = runpy.run_path(str(Path(__file__).with_name("pictures.py")))
        pictures["draw"](name).savefig(content, format="png", dpi=110)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"

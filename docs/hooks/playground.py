"""The playground as plain files, in `play/` of the site: it needs no server, and opens from a disk.

It is the page of `setpred play` itself. Browsers refuse modules from a disk, so all of them become one script.
"""

import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from setpred.play.zoo import weights_module

PAGE = Path(__file__).parent.parent.parent / "src" / "setpred" / "play" / "page"
SERVED = '<script type="module" src="app.js"></script>'
IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+\.js)";\n', flags=re.M)
LEFT = re.compile(r'^(?:import\b.*";|export\b.*)$', flags=re.M)
EXPORT = re.compile(r"^export (?=(?:const|function|class) (\w+))", flags=re.M)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page and what it loads."""
    for name, content in static_files().items():
        files.append(File.generated(config, f"play/{name}", content=content))
    return files


def static_files() -> dict[str, str]:
    """Every file of the page without a server, by name."""
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    if SERVED not in html:
        raise PluginError(f"index.html does not load its script with {SERVED}")
    kept = {name: (PAGE / name).read_text(encoding="utf-8") for name in ("style.css", "icon.svg")}
    return {
        **kept,
        "index.html": html.replace(SERVED, '<script defer src="playground.js"></script>'),
        "playground.js": bundled("static.js", read_module),
    }


def read_module(name: str) -> str:
    """The text of a module; that of the weights is made from the models."""
    return weights_module() if name == "weights.js" else (PAGE / name).read_text(encoding="utf-8")


def bundled(entry: str, read: Callable[[str], str]) -> str:
    """A module and all that it imports as one script: each is a function that leaves what it exports behind."""
    parts: dict[str, str] = {}
    under_way: list[str] = []

    def add(name: str) -> None:
        if name in under_way:
            raise PluginError(f"{' → '.join([*under_way, name])}: modules must not import each other in a circle")
        if name in parts:
            return
        under_way.append(name)
        text = read(name)
        for _, other in IMPORT.findall(text):
            add(other)
        under_way.pop()
        exported = ", ".join(EXPORT.findall(text))
        text = EXPORT.sub("", IMPORT.sub(r'const \1 = modules["\2"];' + "\n", text))
        if left := LEFT.search(text):
            raise PluginError(f"{name}: {left[0]!r} cannot be bundled: name what is imported or exported")
        parts[name] = f'modules["{name}"] = (() => {{\n{text}return {{ {exported} }};\n}})();\n'

    add(entry)
    return '"use strict";\n(() => {\nconst modules = {};\n' + "".join(parts.values()) + "})();\n"

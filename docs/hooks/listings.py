"""Lists that are made from the code when the site is built: models, settings, commands, public names.

A line `<!-- list: NAME -->` in a page becomes the list of that name.
"""

import inspect
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import setpred
from setpred.cli import app
from setpred.tasks import TASKS, find_task
from setpred.tasks.catalogue import Setting, list_models, list_settings

API = Path(__file__).parent.parent / "api"
MARK = re.compile(r"^<!-- list: (\w+) -->$", flags=re.M)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace every mark."""
    return MARK.sub(lambda mark: LISTS[mark[1]](), markdown)


def models() -> str:
    """One row per model."""
    lines = ["| model | what it is | tasks |", "|---|---|---|"]
    for model in list_models():
        tasks = "all" if len(model.tasks) == len(TASKS) else ", ".join(model.tasks)
        lines.append(f"| `{model.name}` | {model.sentence} | {tasks} |")
    return "\n".join(lines)


def presets() -> str:
    """The presets of each task."""
    return "\n".join(f"- {task}: {', '.join(f'`{name}`' for name in find_task(task).sizes)}" for task in TASKS)


def settings() -> str:
    """One row per setting, the tasks that have it, and its meaning; the same text for all tasks is said once."""
    found: dict[tuple[str, str], list[str]] = {}
    for task in TASKS:
        for setting in list_settings(task):
            found.setdefault((setting.key, _meaning(setting)), []).append(task)
    tables: dict[str, list[str]] = {}
    for (key, meaning), tasks in found.items():
        where = "" if len(tasks) == len(TASKS) else f" *({', '.join(tasks)})*"
        tables.setdefault(key.partition(".")[0], []).append(f"| `{key}` | {meaning}{where} |")
    head = "| setting | meaning |\n|---|---|\n"
    return "\n\n".join(head + "\n".join(rows) for rows in tables.values())


def _meaning(setting: Setting) -> str:
    text = setting.sentence.replace("|", "\\|")
    return re.sub(r"^\[([^]]*)\] ", lambda owners: f"`{owners[1].replace(', ', '`, `')}`: ", text)


def commands() -> str:
    """Every command with its arguments, options and examples."""
    return "\n\n".join(_command(path, command) for path, command in _commands(typer.main.get_command(app), ()) if path)


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))


def _command(path: tuple[str, ...], command: Any) -> str:
    name = " ".join(("setpred", *path))
    lines = [f"## {name}", inspect.cleandoc(command.help or "")]
    arguments, options = [], []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        text = (getattr(parameter, "help", "") or "").replace("|", "\\|")
        text = re.sub(r" ?\[default: (.*?)\]", r" Default: \1.", text)
        default = _default(parameter)
        if parameter.param_type_name == "argument":
            arguments.append(f"| `{parameter.metavar or parameter.name.upper()}` | {text} |")
        else:
            words = ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))
            options.append(f"| {words} | {text}{default} |")
    if hasattr(command, "commands"):
        names = ", ".join(f"[`{each}`](#{'-'.join(('setpred', *path, each))})" for each in command.commands)
        return "\n\n".join([*lines, f"Its commands are {names}."])
    if arguments or options:
        lines.append("| argument | meaning |\n|---|---|\n" + "\n".join([*arguments, *options]))
    examples = re.findall(r"- `(.*?)`", command.epilog or "")
    return "\n\n".join([*lines, "Examples:", "\n".join(f"    {line}" for line in examples)])


def _default(parameter: Any) -> str:
    value = parameter.default
    plain = value is not None and not callable(value) and not isinstance(value, bool) and str(value) not in ("", "[]")
    return f" Default: `{value}`." if plain and "[default" not in (parameter.help or "") else ""


def api() -> str:
    """Every public name with its first sentence, by the page that documents it."""
    parts, reference = [], runpy.run_path(str(Path(__file__).with_name("reference.py")))["on_page_markdown"]
    for page in sorted(API.glob("*.md")):
        text = reference(page.read_text(encoding="utf-8"))
        found = dict.fromkeys(re.findall(r"^::: setpred\.(\w+)", text, flags=re.M))
        rows = []
        for name in (name for name in found if name in setpred.__all__):
            module = setpred.PUBLIC[name] == f".{name}"  # which is documented by what is in it
            place = page.name if module else f"{page.name}#setpred.{name}"
            rows.append(f"| [`{name}`]({place}) | {_first_sentence(getattr(setpred, name))} |")
        title = text.partition("\n")[0].removeprefix("# ")
        if rows:
            parts.append(f"## {title}\n\n| name | what it is |\n|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _first_sentence(thing: Any) -> str:
    text = " ".join(inspect.getdoc(thing).split("\n\n")[0].split())  # type: ignore[union-attr]
    return re.split(r"(?<=\.)\s", text)[0].rstrip(":").replace("|", "\\|")


LISTS = {"models": models, "presets": presets, "settings": settings, "commands": commands, "api": api}

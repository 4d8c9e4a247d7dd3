"""A person at a terminal finds out what there is, and hears at once that something happens."""

import io
import os
import pty
import re
import subprocess
import sys
import time

import pytest
import typer
from rich.console import Console

from setpred.cli import app
from setpred.tasks import MODEL_NAMES, TASKS, find_task
from setpred.tasks.catalogue import list_models, list_settings
from setpred.training.trainer import Bar


def commands(command, path=()):
    """Every command with the words that lead to it."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = dict(commands(typer.main.get_command(app)))


def shown_examples(command):
    return re.findall(r"- `setpred (.*?)`", command.epilog or "")


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_help_ends_with_examples(path):
    assert shown_examples(ALL[path])


@pytest.mark.parametrize("line", [line for command in ALL.values() for line in shown_examples(command)])
def test_every_example_is_a_command_line_that_is_accepted(line):
    words = re.sub(r" [<>].*", "", line).split()
    path = ()
    while words and (*path, words[0]) in ALL:
        path = (*path, words.pop(0))
    if "--help" not in words:
        ALL[path].make_context("setpred", words)


def test_models_lists_every_model_of_a_task_with_a_sentence(setpred):
    listed = list_models()
    assert {model.name for model in listed} == {name for task in map(find_task, TASKS) for name in task.models}
    assert [model.name for model in listed if not model.sentence] == []
    assert {model.name for model in listed} <= set(MODEL_NAMES)
    code, out, _ = setpred("models", "autoencoding")
    assert code == 0
    assert set(find_task("autoencoding").models) <= {line.split(" ")[0] for line in out.splitlines()}
    assert "Presets: paper, small, quick" in out


@pytest.mark.parametrize("task", TASKS)
def test_every_setting_is_listed_with_its_value_and_a_meaning(task):
    from setpred.tasks.settings import NAMES, flatten, to_dict

    listed = {setting.key: setting for setting in list_settings(task)}
    known = {key for key in flatten(to_dict(find_task(task).settings())) if key not in NAMES}
    assert known <= set(listed)
    assert [key for key, setting in listed.items() if not setting.sentence.rpartition("] ")[2]] == []
    assert all(listed[key].value is not None for key in known)


def test_settings_shows_the_values_of_the_model_and_preset_that_are_named(setpred):
    code, out, _ = setpred("settings", "autoencoding", "--model", "dspn", "--preset", "paper")
    assert code == 0
    values = dict(re.findall(r"^([\w.]+) +(\S+)", out, flags=re.M))
    assert (values["solver"], values["adjoint"], values["net.hidden"]) == ("GradientDescent", "Unrolled", "512")
    assert setpred("settings", "numberng")[0] == 2


def test_a_terminal_hears_within_a_moment_that_pytorch_is_loading():
    first, second = pty.openpty()
    started = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "setpred", "check", "push_apart"], stdout=second, stderr=second)
    os.close(second)
    said = os.read(first, 100).decode()
    waited = time.monotonic() - started
    rest = b""
    while True:
        try:
            rest += os.read(first, 1000)
        except OSError:  # a terminal that nobody writes to any more
            break
    whole = time.monotonic() - started
    os.close(first)
    assert process.wait() == 0
    assert said.startswith("loading PyTorch")
    assert waited < 0.5 * whole
    assert b"multiset-equivariant" in rest


def test_the_bar_of_a_training_fits_a_terminal_of_80_columns():
    progress = Bar().progress
    progress.add_task("autoencoding idspn", total=20000, completed=19990, loss="loss 0.000412")
    console = Console(width=80, file=io.StringIO())
    console.print(progress.get_renderable())
    line = console.file.getvalue()
    assert re.search(r"autoencoding idspn .* 19990/20000 loss 0.000412 .* elapsed, .* left", line), line


def test_the_shell_completes_tasks_and_models():
    for words, expected in (("setpred train n", "numbering"), ("setpred train numbering --model idspn-s", "idspn-sum")):
        environment = os.environ | {
            "_SETPRED_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        run = "import sys; sys.argv[0] = 'setpred'; from setpred.__main__ import main; main()"
        done = subprocess.run([sys.executable, "-c", run], env=environment, capture_output=True, text=True, check=False)
        assert expected in done.stdout.split(), done.stderr

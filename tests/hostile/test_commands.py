"""Whole commands on damaged runs, models and inputs end well or in one sentence, never in a traceback."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from damaged_runs import CHANGES, train_into, write_lines, write_points
from safetensors.torch import load_file, save_file

import setpred as sp
from setpred.errors import UsageError
from setpred.export import to_onnx

FUZZ = Path(__file__).with_name("command_fuzz.py")
PORTION = 500
"""Cases in a process: exporters keep some of what they traced, and the memory of the process is limited."""


@pytest.mark.parametrize(
    ("cases", "names"),
    [
        pytest.param(30, ["saved", "other saved", "theirs"], id="few"),
        pytest.param(5_000, [], id="many", marks=pytest.mark.nightly),
    ],
)
def test_commands_on_damaged_files_are_done_or_refused(cases, names, note):
    totals, peak = {"done": {}, "refused": {}}, 0
    for seed in range(cases, 0, -PORTION):
        portion = str(min(PORTION, seed))
        words = [sys.executable, str(FUZZ), portion, str(seed), *names]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=3600)
        assert done.returncode == 0, done.stderr[-2000:]
        report = json.loads(done.stdout)
        assert not report["wrong"], "\n".join(report["wrong"])
        for outcome, total in totals.items():
            for command, count in report[outcome].items():
                total[command] = total.get(command, 0) + count
        peak = max(peak, report["peak_mb"])
    assert sum(sum(total.values()) for total in totals.values()) == cases
    for outcome, total in totals.items():
        note(outcome, total)
    note("largest memory in MB", peak)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    write_points(folder)
    return folder


@pytest.fixture
def run(trained, tmp_path, setpred):
    """A run of one's own to damage, in the folder that commands run in."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path / "run"


def change_weights(path, change):
    save_file({name: change(weight).contiguous() for name, weight in load_file(path).items()}, path)


def refused(answer, *words):
    code, _, err = answer
    assert code == 2, err
    assert err.splitlines()[-1].startswith("setpred: ")
    assert "Traceback" not in err
    for word in words:
        assert word in err
    return True


@pytest.mark.parametrize("kind", ["NaN", "infinity", "one NaN"])
@pytest.mark.parametrize("words", [["evaluate", "run"], ["check", "run"], ["predict", "run", "inputs.jsonl"]])
def test_weights_that_are_no_numbers_are_refused(setpred, run, kind, words):
    change_weights(run / "model.safetensors", CHANGES[kind])
    assert refused(setpred(*words), "model.safetensors", "holds NaN or infinity")


@pytest.mark.parametrize("words", [["evaluate", "run"], ["check", "run"], ["predict", "run", "inputs.jsonl"]])
def test_weights_of_zero_are_weights(setpred, run, words):
    change_weights(run / "model.safetensors", CHANGES["zeros"])
    assert setpred(*words)[0] == 0


def test_weights_that_make_no_numbers_are_refused(setpred, run):
    change_weights(run / "model.safetensors", CHANGES["huge"])
    assert refused(setpred("evaluate", "run"), "run cannot be evaluated")
    assert refused(setpred("predict", "run", "inputs.jsonl"), "the model predicts NaN or infinity for it")


def test_a_verdict_on_what_diverged_says_so(setpred, run):
    change_weights(run / "model.safetensors", CHANGES["large"])
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("clip: 10.0", "clip: null"))
    with pytest.warns(UserWarning, match="inner optimisations diverged"):
        assert setpred("check", "run")[0] == 0


@pytest.mark.parametrize("kind", ["complex", "fp8", "whole", "bool", "bytes"])
@pytest.mark.parametrize("words", [["evaluate", "run"], ["predict", "run", "inputs.jsonl"]])
def test_weights_of_other_types_are_refused(setpred, run, kind, words):
    change_weights(run / "model.safetensors", CHANGES[kind])
    assert refused(setpred(*words), "which this model cannot use")


def test_weights_of_two_precisions_are_refused(setpred, run):
    weights = load_file(run / "model.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: weights[name].half()}, run / "model.safetensors")
    assert refused(setpred("predict", "run", "inputs.jsonl"), "mixes float16 and float32")
    assert refused(setpred("evaluate", "run"), "mixes float16 and float32")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("solver.lr", "x", "solver.lr is 'x': it must be a number"),
        ("solver.lr", None, "solver.lr is None: it must be a number"),
        ("solver.lr", 1e300, "solver.lr is 1e+300: it must be a number"),
        ("solver.lr", {"class": "float", "name": "nan"}, "solver.lr is nan: it must be a number"),
        ("solver.lr", {"class": "float", "name": "inf"}, "lr is inf, it must be a finite number"),
        ("solver.steps", 10**18, "steps is 1000000000000000000, it must be a whole number from 1 to 1,000,000"),
        ("solver.clip", [1.0], "solver.clip is [1.0]: it must be a number or none"),
        ("init.weight", "much", "init.weight is 'much': it must be a number"),
        ("init.weight", -1.0, "weight is -1.0, it must be a finite number"),
        ("init", "random", "init is 'random': it must be a Init or none"),
        ("constraint", {"class": "Box", "low": "a", "high": "b"}, "constraint.low is 'a': it must be a number"),
        ("constraint", {"class": "Simplex", "total": None}, "constraint.total is None: it must be a number"),
        ("restart.std", True, "restart.std is True: it must be a number"),
    ],
)
def test_saved_values_of_the_wrong_kind_are_refused_when_they_are_read(setpred, run, place, value, message):
    path = run / "config.json"
    config = json.loads(path.read_text())
    *way, last = place.split(".")
    part = config["model"]["decoder"]
    for key in way:
        part = part[key]
    part[last] = value
    path.write_text(json.dumps(config))
    assert refused(setpred("predict", "run", "inputs.jsonl"), message)
    assert refused(setpred("export", "run", "--to", "pretrained", "--out", "out"), message)


@pytest.mark.parametrize(("key", "value"), [("lr", "x"), ("lr", 1e300), ("lr", float("nan")), ("momentum", [1])])
def test_settings_of_the_wrong_kind_are_refused(setpred, run, key, value):
    path = run / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["solver"][key] = value
    path.write_text(yaml.safe_dump(config))
    assert refused(setpred("evaluate", "run"), f"solver.{key}")
    assert refused(setpred("check", "run"), f"solver.{key}")


@pytest.mark.parametrize("place", ["solver.lr", "optim.lr", "optim.weight_decay", "data.test"])
def test_numbers_that_no_computer_holds_are_refused(setpred, run, place):
    path = run / "config.yaml"
    config = yaml.safe_load(path.read_text())
    part, key = place.split(".")
    config[part][key] = 10**400
    path.write_text(yaml.safe_dump(config))
    assert refused(setpred("evaluate", "run"), place)


def test_a_report_of_a_run_with_a_list_among_its_settings(setpred, run):
    path = run / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["init"]["std"] = [1.0]
    path.write_text(yaml.safe_dump(config))
    code, _, err = setpred("report", "run", "--out", "page.html")
    assert code in (0, 2)
    assert "Traceback" not in err


def test_whole_numbers_longer_than_those_of_machines_are_numbers(setpred, run):
    path = run / "config.json"
    path.write_text(path.read_text().replace('"momentum": 0.9', f'"momentum": {10**22}'))
    assert setpred("predict", "run", "inputs.jsonl")[0] == 0


def test_long_names_are_not_repeated_whole(setpred, run):
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("class: Nesterov", f"class: {'x' * 10_000}"))
    assert refused(setpred("report", "run"), "unknown solver 'xxx")
    assert len(setpred("check", "y" * 200)[2]) < 500


def test_a_run_without_its_weights_is_to_be_trained_again(setpred, run):
    (run / "model.safetensors").unlink()
    assert refused(setpred("predict", "run", "inputs.jsonl"), "train the run again with another --out")


def test_names_that_look_like_variables(setpred, tmp_path):
    lines = [{"vector": [1.0, i], "objects": [{"kind": "${x}", "at": 1.0 * i}]} for i in range(4)]
    for split in ("train", "val"):
        write_lines(tmp_path / f"{split}.jsonl", lines)
    train_into(tmp_path, str(tmp_path))
    write_lines(tmp_path / "inputs.jsonl", [{"vector": [1.0, 2.0]}])
    code, out, _ = setpred("predict", "run", "inputs.jsonl")
    assert code == 0
    assert json.loads(out)["objects"][0]["kind"] == "${x}"


@pytest.mark.parametrize("file", ["config.json", "result.json"])
def test_half_a_character_is_refused(setpred, run, file):
    path = run / file
    path.write_text(path.read_text().replace('"at"', '"\\ud800"').replace('"task"', '"\\ud800"'))
    words = ["predict", "run", "inputs.jsonl"] if file == "config.json" else ["report", "run"]
    assert refused(setpred(*words), file, "half a character")


@pytest.mark.parametrize(
    "text", ["step,seconds,lr\n2,0.1,0.001\n", "step\n2\n", "train/loss\n0.5\n", "step,train/loss\n"]
)
def test_a_report_of_a_run_without_its_losses(setpred, run, text):
    (run / "metrics.csv").write_text(text)
    assert setpred("report", "run", "--out", "page.html")[0] == 0
    assert Path("page.html").exists()


def test_machines_and_folders_that_are_not_there(setpred, run):
    assert refused(setpred("train", "numbering", "trainer.accelerator=tpu", "--out", "new"), "trainer.accelerator")
    Path("loop").symlink_to("loop")
    assert refused(setpred("train", "loop", "--model", "idspn"), "unknown task")
    assert refused(setpred("play", "loop", "--no-browser"), "loop")
    assert refused(setpred("train", "numbering", "--out", "x" * 5_000), "File name too long")
    assert not Path("new").exists()


def test_a_decoder_alone_is_not_exported(tmp_path):
    decoder = sp.iDSPN(sp.SetEncoder(dim=2, hidden=8, latent=8, size=3))
    with pytest.raises(UsageError, match="put it into a SetPredictor"):
        to_onnx(decoder, tmp_path / "model.onnx", torch.zeros(1, 8))


def test_names_of_files_that_are_no_text(tmp_path):
    """On a screen for UTF-8, where half a character would stop what prints it."""
    from readers import write_image

    schema = sp.Schema({"at": sp.Real(2, range=(0, 8))}, size=2)
    sp.SetPredictor(sp.ImageReader(schema, width=8), None, schema).save_pretrained(tmp_path / "model")
    name = os.fsdecode(b"caf\xe9.png")
    write_image(tmp_path / "plain.png")
    (tmp_path / "plain.png").rename(tmp_path / name)
    done = command("predict", str(tmp_path / "model"), str(tmp_path / name), PYTHONIOENCODING="utf-8:strict")
    assert json.loads(done)["image"].endswith("caf\\xe9.png")


def test_words_beyond_ascii_on_a_machine_that_has_no_others(tmp_path):
    words = ["größe", "猫"]
    lines = [{"vector": [1.0, i], "objects": [{words[0]: 1.0 * i, "kind": words[1]}] * 2} for i in range(4)]
    for split in ("train", "val"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    train_into(tmp_path, str(tmp_path))
    said = command("evaluate", str(tmp_path / "run"), **ascii_only)
    assert "gr\\xf6\\xdfe right" in said
    write_lines(tmp_path / "inputs.jsonl", [{"id": words[1], "vector": [1.0, 2.0]}])
    said = command("predict", str(tmp_path / "run"), str(tmp_path / "inputs.jsonl"), **ascii_only)
    assert json.loads(said)["id"] == words[1]


def command(*words, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "setpred", *words], capture_output=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.decode()

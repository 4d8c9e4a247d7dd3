"""The command line as a person meets it: results on the screen, mistakes in one line."""

import json
import re
import subprocess
import sys

import pytest

TINY = [
    "data.train=64",
    "data.val=32",
    "data.test=32",
    "optim.steps=12",
    "trainer.round=6",
    "net.hidden=16",
    "net.latent=16",
]


def test_train_evaluate_check_report(setpred, tmp_path):
    code, out, _ = setpred("train", "numbering", "--preset", "quick", "--out", "run", *TINY)
    assert code == 0
    assert "the fraction of test sets in which every number is right; higher is better" in out
    assert "Published for idspn: accuracy 96.8 % ± 0.6 % (64 elements of 4 classes" in out
    assert "setpred report run" in out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert f"has a loss of {result['trivial_loss']:.3g}" in out
    assert result["steps"] == 12
    assert result["preset"] == "quick"

    code, out, _ = setpred("evaluate", "run", "steps=2,5", "--json")
    assert code == 0
    rows = json.loads(out)
    assert set(rows) == {"2", "5"}
    assert rows["2"]["loss"] != rows["5"]["loss"]

    code, out, _ = setpred("check", "run")
    assert code == 0
    assert "multiset-equivariant; noise joint" in out

    code, out, _ = setpred("report", "run", "--out", "page.html")
    assert code == 0
    assert "<svg" in (tmp_path / "page.html").read_text()


def test_a_run_goes_on_with_resume(setpred, tmp_path):
    words = ["train", "numbering", "--preset", "quick", "--model", "deepsets", "--out", "run", *TINY[:-1]]
    assert setpred(*words)[0] == 0
    assert setpred(*words, "--resume")[0] == 0
    assert setpred("train", "numbering", "--out", "run", "--resume")[0] == 0
    code, _, err = setpred("train", "numbering", "--model", "bilstm", "--out", "run", "--resume")
    assert code == 2
    assert "run was started with model=deepsets, not bilstm" in err


def test_a_run_is_resumed_by_the_words_it_was_started_with(setpred, tmp_path):
    words = ["train", "numbering", "--preset", "quick", "--out", "run", *TINY, "optim.lr=3e-4", "solver.clip=none"]
    words[words.index("optim.steps=12")] = "optim.steps=1.2e1"
    assert setpred(*words)[0] == 0
    (tmp_path / "run" / "result.json").unlink()
    assert setpred(*words, "--resume")[0] == 0
    code, _, err = setpred(*words[:-1], "solver.clip=3", "--resume")
    assert code == 2
    assert "run was started with solver.clip=None, not 3.0" in err


def test_a_folder_of_other_things_is_left_alone(setpred, tmp_path):
    (tmp_path / "mine").mkdir()
    kept = [tmp_path / "mine" / name for name in (".letter.7.tmp", "letter.txt")]
    for path in kept:
        path.write_text("dear")
    code, _, err = setpred("train", "numbering", "--preset", "quick", "--out", "mine", "--resume", *TINY)
    assert code == 2
    assert "mine holds other things than a run" in err
    assert all(path.exists() for path in kept)


def test_a_run_of_many_machines_is_evaluated_on_one(setpred, tmp_path):
    words = ["train", "numbering", "--preset", "quick", "--model", "deepsets", "--out", "run", *TINY[:-1]]
    assert setpred(*words)[0] == 0
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("nodes: 1", "nodes: 2").replace("devices: 1", "devices: 8"))
    code, out, _ = setpred("evaluate", "run", "--json")
    assert code == 0
    assert json.loads(out)
    for wrong, message in (
        ("task=clevr", "task of a finished run cannot be changed"),
        ("steps=3", "has no iterations"),
    ):
        code, _, err = setpred("evaluate", "run", wrong)
        assert code == 2
        assert message in err


def test_how_many_examples_diverged_or_started_again_stands_beside_the_loss(setpred):
    words = ["data.train=64", "data.test=32", "optim.steps=12", "trainer.round=6", "net.hidden=16", "net.latent=16"]
    assert (
        setpred("train", "autoencoding", "--preset", "quick-best", "--out", "run", *words, "restart.fraction=0.5")[0]
        == 0
    )
    once, again = (json.loads(setpred("evaluate", "run", "--json", *more)[1])["8"] for more in (["restart=none"], []))
    assert "restarted" not in once
    assert 0 < again["restarted"] < 1
    assert once["diverged"] == again["diverged"] == 0


def test_a_training_whose_inner_optimisation_diverges_says_so_once(setpred):
    words = ["data.train=64", "data.test=32", "optim.steps=12", "trainer.round=4", "net.hidden=16", "net.latent=16"]
    train = ["train", "autoencoding", "--preset", "quick", *words]
    code, _, err = setpred(*train, "--out", "lost", "solver.lr=1e6")
    assert code == 0
    assert " ".join(err.split()).count("by step 4, 100% of the inner optimisations diverge") == 1
    assert "solver.clip=10" in err
    assert "diverge" not in setpred(*train, "--out", "fine")[2]


def test_the_version_is_told_and_the_bare_package_says_what_its_command_needs(setpred):
    assert setpred("--version")[1].startswith("setpred 0.")
    bare = "import sys; sys.modules['typer'] = None; from setpred.__main__ import main; main()"
    told = subprocess.run([sys.executable, "-c", bare], capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert told.stderr == "setpred: the command line needs typer: pip install 'setpred[train]'\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "numberng"], "unknown task 'numberng': did you mean numbering?"),
        (["train", "numbering", "--model", "idpsn"], "unknown numbering model 'idpsn': did you mean idspn?"),
        (["train", "numbering", "--preset", "huge"], "unknown preset 'huge': there are paper, small, quick"),
        (
            ["train", "numbering", "solver.momentm=0.5"],
            "unknown setting 'solver.momentm': did you mean solver.momentum?",
        ),
        (["train", "numbering", "solver.steps=many"], "solver.steps='many': it is a whole number"),
        (["train", "numbering", "solver.steps=0"], "steps is 0, it must be a whole number from 1 to 1,000,000"),
        (["train", "numbering", "steps"], "'steps' is not a setting: write key=value"),
        (["train", "numbering", "solver=Nestorov"], "unknown solver 'Nestorov': did you mean Nesterov?"),
        (
            ["train", "numbering", "solver=TorchOptimizer", "solver.optimizer=adamw2"],
            "solver.optimizer cannot be",
        ),
        (["train", "numbering", "net.hidden=0"], "net.hidden is 0: use 1 or more"),
        (["train", "autoencoding", "net.latent=-3"], "net.latent is -3: use 1 or more"),
        (["train", "numbering", "net.pool=median"], "unknown net.pool 'median'"),
        (["train", "numbering", "--model", "bilstm", "solver.steps=4"], "bilstm has no solver"),
        (
            ["train", "numbering", "--model", "dspn", "solver.momentum=0.5"],
            "solver.momentum is for Nesterov, not",
        ),
        (["train", "numbering", "adjoint.gamma=3"], "adjoint.gamma is for ConjugateGradient, not Identity"),
        (["train", "numbering", "init.weight=3"], "init.weight is for LearnedInit, not RandomInit"),
        (["train", "autoencoding", "init=GuessedInit", "init.std=3"], "init.std is for LearnedInit and RandomInit"),
        (["train", "autoencoding", "restart.std=3"], "restart.std needs a restart: set restart=Restart too"),
        (["train", "autoencoding", "trainer.patience=3"], "trainer.patience is for tasks that validate"),
        (["train", "numbering", "trainer.patience=0"], "trainer.patience is 0: use 1 or more"),
        (["train", "numbering", "optim.lr=1e-3", "optim.lr=1e-4"], "optim.lr is given twice: write it once"),
        (["train", "numbering", "data.train=0"], "data.train is 0: use 1 or more"),
        (["train", "numbering", "optim.batch=-1"], "optim.batch is -1: use 1 or more"),
        (["train", "numbering", "trainer.round=0"], "trainer.round is 0: use 1 or more"),
        (["train", "numbering", "optim.lr=-1"], "optim.lr is -1.0: use a number such as 0.001"),
        (["train", "numbering", "optim.start=${HOME}"], "${...} is not filled in, write the value itself"),
        (["train", "numbering", "trainer.precision=foo"], "trainer.accelerator, devices, nodes or precision"),
        (["train", "numbering", "trainer.logger=wandb"], "trainer.logger=wandb needs its package: pip install wandb"),
        (["evaluate", "nowhere"], "there is no run folder nowhere"),
        (["evaluate", ".", "steps=3"], "is not a run folder: it holds no config.yaml"),
        (["check", "nothing"], "unknown run folder or model 'nothing'"),
        (["report", "nowhere"], "nowhere"),
        (["reproduce", "nothing"], "unknown table 'nothing'"),
        (["reproduce", "all", "--within", "soon"], "--within soon is not a time: write 12h"),
        (["reproduce", "all", "n=4"], "name a table for them"),
        (["adopt", "nothing.ckpt", "--out", "run"], "there is no file nothing.ckpt"),
        (["reproduce", "autoencoding", "n=3"], "n=3 is not in the published table"),
        (["data", "scenes", "--out", "x", "--split", "a b"], "split 'a b' is no name for a folder"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(setpred, words, message, tmp_path):
    code, _, err = setpred(*words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_run_is_named(setpred, tmp_path):
    assert setpred("train", "numbering", "--preset", "quick", "--model", "deepsets", "--out", "run", *TINY[:-1])[0] == 0
    weights = tmp_path / "run" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    code, _, err = setpred("evaluate", "run")
    assert code == 2
    assert "model.safetensors is damaged" in err
    (tmp_path / "run" / "config.yaml").write_text("task: [")
    code, _, err = setpred("evaluate", "run")
    assert code == 2
    assert "config.yaml is damaged" in err


def test_bench_quick_has_all_ratios(setpred, tmp_path):
    code, _, _ = setpred("bench", "--quick", "--json", "bench.json", "--figure", "bench.png")
    assert code == 0
    results = json.loads((tmp_path / "bench.json").read_text())
    assert all(row["over_floor"] > 0 and row["over_mm"] > 0 for row in results["inner_loop"])
    assert all(len(row["libraries"]) == 4 for row in results["inner_loop"])
    assert all(row["naive_over_ours"] > 0 and row["unrolled_over_ours"] > 0 for row in results["training_step"])
    assert results["memory"][-1]["idspn_growth"] <= 0.02
    assert (tmp_path / "bench.png").stat().st_size > 10_000


def test_bench_refuses_a_device_that_is_not_there(setpred):
    code, _, err = setpred("bench", "--quick", "--device", "nowhere")
    assert code == 2
    assert "torch cannot use it here" in err


def test_evaluate_does_what_it_is_asked_or_says_why_not(setpred):
    assert setpred("train", "autoencoding", "--preset", "quick", "--out", "run", *TINY[:1], *TINY[2:])[0] == 0
    for word, answer in (
        ("solver.steps=5", "solver.steps is not changed this way: evaluate with steps=5"),
        ("solver.eval_steps=5", "solver.eval_steps is not changed this way: evaluate with steps=5"),
        ("net.pool=mean", "net.pool is what the weights were trained with"),
        ("optim.lr=1", "optim.lr is what the weights were trained with"),
        ("init.std=1", "init.std is where a learned start began"),
        ("adjoint=Unrolled", "adjoint is what the weights were trained with"),
    ):
        code, _, err = setpred("evaluate", "run", word)
        assert (code, answer in err) == (2, True), err
    assert (
        setpred("train", "numbering", "--preset", "quick", "--model", "deepsets", "--out", "plain", *TINY[:-1])[0] == 0
    )
    code, _, err = setpred("evaluate", "plain", "solver.lr=2")
    assert (code, "deepsets has no solver" in err) == (2, True), err
    code, out, _ = setpred("evaluate", "plain", "data.test=16", "--json")
    assert code == 0
    assert list(json.loads(out)) == ["test"], "a model without iterations has no number of them"


def test_the_table_after_training_names_the_step_it_stopped_at(setpred, tmp_path):
    words = ["--preset", "quick", "--model", "deepsets", "--out", "run", *TINY[:3], *TINY[4:-1]]
    code, out, _ = setpred("train", "numbering", *words, "optim.steps=600", "trainer.patience=1")
    assert code == 0
    steps = json.loads((tmp_path / "run" / "result.json").read_text())["steps"]
    assert steps < 600
    assert re.search(rf"step\s+┃\s+{steps} ", out)


def test_names_of_fields_are_shown_as_they_are(capsys):
    from setpred.cli_train import show_metrics

    show_metrics({"4": {"width [mm] right": 0.5, "speed [/s] right": 0.25}}, "step")
    out = capsys.readouterr().out
    assert "width [mm] right" in out
    assert "speed [/s] right" in out


def test_figures_do_not_replace_a_file(setpred, tmp_path):
    assert setpred("train", "autoencoding", "--preset", "quick", "--out", "run", *TINY[:1], *TINY[2:])[0] == 0
    (tmp_path / "taken").write_text("mine")
    code, _, err = setpred("report", "run", "--figures", "taken")
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert (tmp_path / "taken").read_text() == "mine"

"""The command line as a person meets it: results on the screen, mistakes in one line."""

import json

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
    assert "accuracy" in out
    assert "setpred report run" in out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
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
        (["train", "numbering", "solver.steps=many"], "solver.steps='many': Value 'many'"),
        (["train", "numbering", "solver.steps=0"], "steps is 0, it must be a whole number from 1 on"),
        (["train", "numbering", "steps"], "'steps' is not a setting: write key=value"),
        (["train", "numbering", "solver.name=adamw2"], "unknown solver.name 'adamw2'"),
        (["train", "numbering", "net.pool=median"], "unknown net.pool 'median'"),
        (["train", "numbering", "--model", "bilstm", "solver.steps=4"], "bilstm has no solver"),
        (["evaluate", "nowhere"], "there is no run folder nowhere"),
        (["evaluate", ".", "steps=3"], "is not a run folder: it holds no config.yaml"),
        (["check", "nothing"], "unknown run folder or model 'nothing'"),
        (["report", "nowhere"], "nowhere"),
        (["reproduce", "nothing"], "unknown table 'nothing'"),
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
    assert all(row["over_floor"] > 0 for row in results["inner_loop"])
    assert all(row["naive_over_ours"] > 0 and row["unrolled_over_ours"] > 0 for row in results["training_step"])
    assert results["memory"][-1]["idspn_growth"] <= 0.02
    assert (tmp_path / "bench.png").stat().st_size > 10_000

"""`setpred compare`: equal budgets, a table and a page, and it goes on where it was."""

import dataclasses
import json
import math
import random
import subprocess
import sys
import time

import pytest

from setpred.errors import UsageError

BUDGET = ["--budget", "1s", "--seeds", "1", "--preset", "quick", "--workers", "1"]


@pytest.fixture
def points(tmp_path):
    """A folder of vectors that are the sums of one or two points."""
    rng, folder = random.Random(0), tmp_path / "points"
    folder.mkdir()
    for split, count in (("train", 60), ("val", 12)):
        examples = [[{"at": [rng.random(), rng.random()]} for _ in range(1 + i % 2)] for i in range(count)]
        records = [
            {"vector": [sum(o["at"][k] for o in objects) for k in (0, 1)], "objects": objects} for objects in examples
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(json.dumps(record) for record in records))
    return folder


def test_a_folder_of_ones_own_is_compared_and_goes_on_where_it_was(setpred, points, tmp_path):
    words = ["compare", "points", "--models", "mlp,idspn", *BUDGET, "--out", "out"]
    code, _, err = setpred(*words)
    assert code == 0, err
    (board,) = (tmp_path / "out").glob("*.json")
    facts = json.loads(board.read_text(encoding="utf-8"))
    rows = {row["model"]: row for row in facts["rows"]}
    assert set(rows) == {"mlp", "idspn", "mean set", "most frequent set"}
    for name in ("mlp", "idspn"):
        assert rows[name]["finished"] == 1
        assert 0.4 < rows[name]["cpu_seconds"] < 2.5
        assert rows[name]["parameters"] > 1_000
        assert rows[name]["milliseconds"] > 0
        assert rows[name]["peak_megabytes"] > 100
    assert rows["idspn"]["equivariance"] == "exclusively multiset-equivariant"
    assert rows["mlp"]["examples"] > rows["idspn"]["examples"] > 0  # one vector at a time is cheaper than a search
    page = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    assert "processor seconds of training" in page or "<svg" in page
    assert "http" not in page.split("<body>")[1].replace("http://www.w3.org", "")

    run = next((tmp_path / "out").glob("points-*/mlp-seed0"))
    weights = (run / "model.safetensors").read_bytes()
    for name in ("result.json", "model.safetensors"):
        (run / name).unlink()  # as if it had been killed at the end
    code, _, err = setpred(*words)
    assert code == 0
    assert "idspn-seed0: started" not in err
    assert (run / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["points", "--budget", "soon"], "--budget 'soon' is no time: write 90s, 10m or 1h"),
        (["points", "--budget", "0.1s"], "no model learns in less than 1 s"),
        (["points", "--budget", "9" * 400 + "h"], "is longer than a year"),
        (["points", "--models", "idpsn", *BUDGET], "did you mean idspn?"),
        (["nothing", *BUDGET], "unknown task 'nothing'"),
        (["points", "--preset", "paper"], "unknown preset 'paper': there are small, quick"),
        (["points", "--models", "reader", *BUDGET], "reader reads images, the inputs are vectors"),
    ],
)
def test_a_wrong_request_is_one_line(setpred, points, words, message):
    code, _, err = setpred("compare", *words)
    assert code == 2
    assert message in err.splitlines()[-1]


def test_a_recommended_model_takes_part_once(points, tmp_path):
    from setpred.compare.contest import make_contest

    contest = make_contest(str(points), (), 5.0, 2, "quick", tmp_path, {})
    assert [entrant.name for entrant in contest.entrants] == [
        "idspn",
        "dspn",
        "mlp",
        "queries",
        "slots",
        "slots-unrolled",
    ]
    assert [run.name for run in contest.runs][5:8] == ["slots-unrolled-seed0", "idspn-seed1", "dspn-seed1"]
    twice = make_contest(str(points), ["mlp", "idspn", "mlp"], 5.0, 1, "quick", tmp_path, {})
    assert [run.name for run in twice.runs] == ["mlp-seed0", "idspn-seed0"]
    numbers = make_contest("numbering", (), 5.0, 1, "quick", tmp_path, {})
    best = numbers.entrants[-1]
    assert (best.name, best.settings.model, best.settings.preset) == ("best", "idspn", "quick-best")


@pytest.fixture
def trained(points, tmp_path):
    """A contest of two models, each trained for two steps."""
    from setpred.compare.contest import make_contest
    from setpred.training.run import train

    small = {"optim.steps": 2, "trainer.round": 1, "net.hidden": 8, "net.latent": 8, "optim.batch": 8}
    contest = make_contest(str(points), ["mlp", "idspn"], 5.0, 1, "quick", tmp_path / "out", {})
    entrants = []
    for entrant in contest.entrants:
        (run,) = entrant.runs
        run = dataclasses.replace(run, changes=small | {"trainer.logger": None})
        train(run.settings, run.folder, quiet=True)
        entrants.append(dataclasses.replace(entrant, runs=(run,), settings=run.settings))
    return dataclasses.replace(contest, entrants=tuple(entrants))


@pytest.mark.parametrize(
    ("name", "text", "finished", "reason"),
    [
        ("result.json", "[]", 0, "result.json is damaged"),
        ("config.yaml", "task: [", 0, "config.yaml is damaged"),
        ("model.safetensors", "x", 1, "model.safetensors is damaged"),
    ],
)
def test_a_damaged_run_is_a_row_with_its_reason(trained, name, text, finished, reason):
    mlp = trained.runs[0].folder
    sound = (mlp / name).read_bytes()
    (mlp / name).write_text(text)
    board = read_board(trained)
    rows = {row.model: row for row in board.rows}
    assert (rows["mlp"].finished, rows["idspn"].finished) == (finished, 1)
    assert reason in rows["mlp"].failure
    assert f"mlp: {rows['mlp'].failure}." in board.markdown()
    (mlp / name).write_bytes(sound)
    board = read_board(trained)
    assert [row.failure for row in board.rows] == [""] * len(board.rows)


def test_a_page_is_written_while_one_run_is_sound(trained, tmp_path):
    from setpred.compare import write_leaderboards

    mlp, idspn = (run.folder for run in trained.runs)
    result = json.loads((mlp / "result.json").read_text())
    (mlp / "result.json").write_text(json.dumps({**result, "steps": "x"}))
    (board,) = write_leaderboards([trained], tmp_path / "out")
    reason = "result.json is damaged: steps holds 'x': use finite numbers."
    assert reason in board.markdown()
    assert reason[:-1] in (tmp_path / "out" / "compare.html").read_text(encoding="utf-8").replace("&#x27;", "'")

    metrics = result["metrics"] | {"score": None, "accuracy": math.nan}
    (mlp / "result.json").write_text(json.dumps({**result, "metrics": metrics, "cpu_seconds": None}))
    board = read_board(trained)
    board.write(tmp_path / "out")
    for path in (tmp_path / "out").glob("*.json"):
        json.loads(path.read_text(), parse_constant=pytest.fail)

    for folder in (mlp, idspn):
        (folder / "result.json").write_text("{")
    with pytest.raises(UsageError, match=r"no run has finished: .*result.json is damaged"):
        write_leaderboards([trained], tmp_path / "out")


def test_what_a_comparison_keeps_beside_runs_is_made_again_where_it_is_damaged(trained):
    kept = (trained.runs[0].folder / "measured.json", trained.folder / "trivial.json")
    read_board(trained)
    for text in ("[]", '{"mean set": 1, "milliseconds": "x"}'):
        for path in kept:
            path.write_text(text)
        assert "mean set" in read_board(trained).markdown()
        assert all(path.read_text() != text for path in kept)


def read_board(contest):
    from setpred.compare.leaderboard import read_leaderboard

    return read_leaderboard(contest)


@pytest.mark.nightly
def test_a_comparison_that_is_killed_again_and_again_ends_all_the_same(points, tmp_path, note):
    words = [sys.executable, "-m", "setpred", "compare", "points", "--models", "mlp,idspn", *BUDGET, "--out", "out"]
    rng = random.Random(0)
    for _ in range(6):
        process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(2, 12))
        process.kill()
        process.wait()
        time.sleep(1)  # its trainings end with it
    note("kills of a comparison", 6)
    assert subprocess.run(words, cwd=tmp_path, capture_output=True).returncode == 0
    (board,) = (tmp_path / "out").glob("*.json")
    rows = json.loads(board.read_text(encoding="utf-8"))["rows"]
    assert {row["model"]: row["finished"] for row in rows if row["seeds"]} == {"mlp": 1, "idspn": 1}

"""What is left of the paper is trained cheapest first, for as long as asked, and what stands of it is said."""

import json
import re
from pathlib import Path

import pytest

from setpred.errors import UsageError
from setpred.paper.coverage import (
    Standing,
    compare_all,
    keep_paper,
    markdown,
    plan_paper,
    read_duration,
    read_kept,
    run_paper,
)
from setpred.paper.figure_one import MODELS, PANELS, figure_one, missing, places
from setpred.paper.reproduce import make_plan
from setpred.paper.scheduler import cheapest_first
from setpred.training.run_folder import write_config

RESULTS = Path(__file__).parents[2] / "results"


def finish(run, **metrics):
    write_config(run.settings, run.folder)
    (run.folder / "result.json").write_text(
        json.dumps({"metrics": metrics, "steps": run.steps, "seconds": 2 * run.estimate})
    )


def progress(run, step):
    run.folder.mkdir(parents=True)
    (run.folder / "metrics.csv").write_text(f"step,seconds,train/loss\n{step},1.0,0.5\n")


def test_small_sets_and_first_seeds_come_first(tmp_path):
    runs = make_plan("autoencoding", ["model=idspn,dspn", "seeds=0-1"], tmp_path).runs
    ordered = cheapest_first(list(reversed(runs)))
    first = {run.seed for run in ordered[:3]}
    assert first == {1}, "the order in which seeds are given is kept"
    ordered = cheapest_first(runs)
    assert ordered[0].name.startswith("idspn-n2-d2-steps10-seed0")
    assert ordered[-1].name.startswith("dspn-n32-d32-steps40-seed1")
    places = {run.name: place for place, run in enumerate(ordered)}
    assert (
        places["idspn-n4-d2-steps10-seed0"] < places["idspn-n2-d2-steps10-seed1"] < places["dspn-n32-d2-steps40-seed0"]
    )


def test_a_run_that_is_nearly_finished_is_cheap(tmp_path):
    runs = make_plan("autoencoding", ["model=dspn", "n=2,32", "d=2", "steps=10", "seeds=0"], tmp_path).runs
    assert [run.changes["data.n"] for run in cheapest_first(runs)] == [2, 32]
    progress(runs[1], 19_900)
    assert [run.changes["data.n"] for run in cheapest_first(runs)] == [32, 2]


def test_a_second_seed_waits_for_new_cells_where_the_first_is_finished(tmp_path):
    runs = make_plan("autoencoding", ["model=idspn", "n=2,4", "d=2", "steps=10", "seeds=0-1"], tmp_path).runs
    ready = next(run for run in runs if run.name == "idspn-n2-d2-steps10-seed0")
    finish(ready, loss=1e-4)
    left = Standing(
        compare_all([make_plan("autoencoding", ["model=idspn", "n=2,4", "d=2", "steps=10"], tmp_path)])
    ).left
    assert [run.name for run, _ in left[:2]] == ["idspn-n4-d2-steps10-seed0", "idspn-n2-d2-steps10-seed1"]


def test_what_stands_is_counted_by_published_numbers(tmp_path):
    plans = plan_paper(tmp_path)
    autoencoding = plans[1]
    first, second = autoencoding.cells[0], autoencoding.cells[1]
    for run in first[1]:
        finish(run, loss=first[0].mean)
    finish(second[1][0], loss=10 * second[0].mean)
    standing = Standing(compare_all(plans))
    nothing, some, images = standing.coverage
    assert (nothing.published, nothing.begun, nothing.finished, nothing.runs) == (45, 0, 0, 45 * 6)
    assert (some.published, some.begun, some.whole, some.finished) == (370, 2, 1, 9)
    assert some.verdicts == {"better": 0, "within 2σ": 1, "worse": 1}
    assert (images.published, images.runs) == (62, 96)
    left = sum(run.estimate for run in autoencoding.runs) - sum(run.estimate for run in (*first[1], second[1][0]))
    assert some.left == pytest.approx(2 * left), "as fast as the finished runs were"
    assert not {run.task for run, _ in standing.left} & {"clevr"}, "it cannot be trained without its images"
    text = markdown(standing)
    assert "2 of the 493 published numbers have a finished run: 0 better, 1 within 2σ, 1 worse" in text
    assert "needs --clevr FOLDER" in text
    assert f"- autoencoding {standing.left[0][0].name}: about" in text
    assert len({len(line) for line in text.splitlines() if line.startswith("|")}) == 1, "columns are aligned"


def test_a_run_that_was_begun_says_where_it_goes_on(tmp_path):
    plan = make_plan("autoencoding", ["model=idspn", "n=2", "d=2", "steps=10", "seeds=0"], tmp_path)
    progress(plan.runs[0], 1_500)
    text = markdown(Standing(compare_all([plan])))
    assert re.search(r"idspn-n2-d2-steps10-seed0: about \d+ min \d+ s, goes on after step 1,500 of 20,000", text)


def test_every_printed_cell_is_accounted_for(tmp_path):
    plans = plan_paper(tmp_path, clevr="CLEVR_v1.0")
    assert plans[-1].comparable
    assert sum(plan.table.printed for plan in plans) == 493
    # Of CLEVR's 78, six are repeats, five are dashes, five are cited from 2019.
    assert [c.published for c in Standing(compare_all(plans)).coverage] == [45, 370, 78 - 6 - 5 - 5]


def test_a_forecast_counts_cells_and_not_runs(tmp_path):
    plan = make_plan("autoencoding", ["model=idspn", "n=2", "d=2,4", "steps=10", "seeds=0-3"], tmp_path)
    standing = Standing(compare_all([plan]))
    costs = [cost for _, cost in standing.left]
    assert standing.forecast(costs[0] / 2) == 0
    assert standing.forecast(1.01 * costs[0]) == 1
    assert standing.forecast(2 * sum(costs)) == 2
    assert Standing(compare_all([plan]), workers=2).forecast(0.51 * costs[0]) == 1


def test_kept_runs_are_not_trained_again(tmp_path, monkeypatch):
    asked = {}

    def pretend(runs, executor, within, elsewhere):
        asked.update(runs=runs, within=within, elsewhere=elsewhere)

    monkeypatch.setattr("setpred.paper.coverage.run_all", pretend)
    standing = run_paper(tmp_path, within="90min", workers=1, kept=RESULTS)
    assert asked["within"] == 5400
    assert {run.task for run in asked["runs"]} == {"numbering", "autoencoding"}, "CLEVR's images are not here"
    assert {path.name for path in asked["elsewhere"]} == {name for _, name in read_kept(RESULTS)}
    assert asked["elsewhere"] < {run.folder for run in asked["runs"]}
    assert not asked["elsewhere"] & {run.folder for run, _ in standing.left}


def test_figure_one_shows_what_is_run_and_says_what_is_missing(tmp_path):
    plan = make_plan("autoencoding", ["model=dspn,idspn,idspn-no-momentum", "seeds=0-1"], tmp_path)
    (empty,) = compare_all([plan])
    assert len(missing(empty)) == places(PANELS) == 18
    for cell, runs in plan.cells:
        if (cell.model, *cell.at.values()) in (("dspn", 4, 4, 20), ("idspn", 4, 4, 40)):
            finish(runs[0], loss=2 * cell.mean)
    (some,) = compare_all([plan])
    assert len(missing(some)) == 16
    assert "iDSPN n=4 d=4 T=40" in missing(empty)
    assert "iDSPN n=4 d=4 T=40" not in missing(some)
    figure = figure_one(some)
    discs = [
        [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())] for axes in figure.axes
    ]
    diamonds = [
        [line for line in axes.lines if line.get_marker() == "D" and len(line.get_xdata())] for axes in figure.axes
    ]
    assert [len(found) for found in discs] == [2, 2, 0], "equal computation has DSPN at 20 beside iDSPN at 40"
    assert [len(found) for found in diamonds] == [len(one.groups) * len(MODELS) for one in PANELS]
    assert "2 of 18 cells are run" in figure.get_suptitle()


def test_what_stands_is_kept_and_read_again(tmp_path):
    standing = run_paper(tmp_path / "runs", kept=RESULTS)
    written = keep_paper(standing, tmp_path / "kept")
    assert {path.name for path in written} >= {"coverage.md", "figure-1.png", "table.json"}
    assert all(path.stat().st_size for path in written)
    ours = {key: run["metrics"] for key, run in read_kept(RESULTS).items()}
    assert {key: run["metrics"] for key, run in read_kept(tmp_path / "kept").items()} == ours
    assert re.search(r"Figure 1 lacks: .*DSPN n=4 d=4 T=20", (tmp_path / "kept" / "coverage.md").read_text())


def test_a_time_is_read():
    assert read_duration("12h") == 12 * 3600
    with pytest.raises(UsageError, match="is not a time: write 12h"):
        read_duration("soon")


def test_kept_tables_of_the_published_protocol_stand(tmp_path):
    known = read_kept(RESULTS)
    assert ("autoencoding", "idspn-n4-d4-steps10-seed0") in known
    _, autoencoding, _ = Standing(compare_all(plan_paper(tmp_path), known), known).coverage
    names = {name for table, name in known if table == "autoencoding"}
    assert autoencoding.finished == len(names)
    assert autoencoding.begun == len({name.rpartition("-seed")[0] for name in names})
    assert sum(autoencoding.verdicts.values()) <= autoencoding.begun
    with pytest.raises(UsageError, match="there is no folder"):
        read_kept(tmp_path / "nothing")

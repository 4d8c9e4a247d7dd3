"""What is left of the paper is trained cheapest first, for as long as asked, and what stands of it is said."""

import json
from pathlib import Path

import pytest

from setpred.errors import UsageError
from setpred.paper.coverage import cover, markdown, plan_paper, read_duration, read_kept
from setpred.paper.reproduce import make_plan
from setpred.paper.scheduler import cheapest_first
from setpred.training.run_folder import write_config


def finish(run, **metrics):
    write_config(run.settings, run.folder)
    (run.folder / "result.json").write_text(json.dumps({"metrics": metrics, "seconds": 2 * run.estimate}))


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


def test_what_stands_is_counted_by_published_numbers(tmp_path):
    numbering, autoencoding = plan_paper(tmp_path)
    assert sum(cell.mean is not None for cell, _ in (*numbering.cells, *autoencoding.cells)) == 415
    first, second = autoencoding.cells[0], autoencoding.cells[1]
    for run in first[1]:
        finish(run, loss=first[0].mean)
    finish(second[1][0], loss=10 * second[0].mean)
    nothing, some = cover([numbering, autoencoding])
    assert (nothing.published, nothing.begun, nothing.finished, nothing.runs) == (45, 0, 0, 45 * 6)
    assert (some.published, some.begun, some.whole, some.finished) == (370, 2, 1, 9)
    assert some.verdicts == {"better": 0, "within 2σ": 1, "worse": 1}
    left = sum(run.estimate for run in autoencoding.runs) - sum(run.estimate for run in (*first[1], second[1][0]))
    assert some.left == pytest.approx(2 * left), "as fast as the finished runs were"
    text = markdown([nothing, some])
    assert "2 of 415 published numbers have a finished run" in text
    assert "Another 62 of CLEVR need its images: --clevr FOLDER" in text


def test_clevr_counts_with_its_images(tmp_path):
    *_, clevr = plan_paper(tmp_path, clevr="CLEVR_v1.0")
    assert clevr.comparable
    # The paper prints 493 cells: of CLEVR's 78, six are repeats, five are dashes, five are cited from 2019.
    assert 45 + 370 + 78 == 493
    assert cover([clevr])[0].published == 78 - 6 - 5 - 5


def test_a_time_is_read():
    assert read_duration("12h") == 12 * 3600
    with pytest.raises(UsageError, match="is not a time: write 12h"):
        read_duration("soon")


def test_kept_tables_of_the_published_protocol_stand(tmp_path):
    results = Path(__file__).parents[2] / "results"
    known = read_kept(results)
    assert ("autoencoding", "idspn-n4-d4-steps10-seed0") in known
    _, autoencoding = cover(plan_paper(tmp_path), known)
    names = {name for table, name in known if table == "autoencoding"}
    assert autoencoding.finished == len(names)
    assert autoencoding.begun == len({name.rpartition("-seed")[0] for name in names})
    assert sum(autoencoding.verdicts.values()) <= autoencoding.begun
    with pytest.raises(UsageError, match="there is no folder"):
        read_kept(tmp_path / "nothing")

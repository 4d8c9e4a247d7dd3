"""One run of CLEVR fills a row of the table, and is compared with the published only on the real images."""

import json
import re
from pathlib import Path

import pytest

from setpred.paper.published import clevr
from setpred.paper.reproduce import make_plan
from setpred.paper.tables import compare, published_nearby, published_value
from setpred.paper.writers import markdown
from setpred.tasks import make_settings
from setpred.training.run_folder import write_config

RULES = {"image_ap": 0.988, "ap": 0.42}
THRESHOLDS = ("inf", "1", "0.5", "0.25", "0.125", "0.0625")


def plan(*words, out=Path("runs/reproduce"), preset="paper"):
    return make_plan("clevr", words, out, preset)


def test_every_published_model_but_the_dspn_of_2019_can_be_trained():
    assert {cell.model for cell in clevr().cells} - set(clevr().models) == {"DSPN"}
    runs = plan("seeds=0").runs
    assert len(runs) == len(clevr().models)
    assert {run.settings.data.size for run in runs} == {128, 256}


def test_all_thresholds_of_a_model_come_from_one_run():
    chosen = plan("model=idspn,dspn-0.9", "seeds=0-1")
    assert [run.name for run in chosen.runs] == ["idspn-seed0", "dspn-0.9-seed0", "idspn-seed1", "dspn-0.9-seed1"]
    assert len(chosen.cells) == 2 * len(THRESHOLDS)


def test_only_the_real_images_are_the_paper_s():
    assert not plan("model=idspn").comparable
    assert plan("model=idspn", "data.source=CLEVR_v1.0").comparable
    assert plan("model=idspn-256px", "data.source=CLEVR_v1.0").comparable
    assert not plan("model=idspn", "data.source=CLEVR_v1.0", "data.train=100", "data.test=10").comparable
    assert not plan("model=idspn", "data.source=CLEVR_v1.0", preset="small").comparable
    assert plan("model=idspn", "data.source=CLEVR_v1.0").departures == (), "where they lie departs from nothing"
    assert plan("model=idspn", "data.source=scenes").departures == ("data.source=scenes",)


@pytest.mark.parametrize(("source", "verdict"), [("scenes", "–"), ("CLEVR_v1.0", "within 2σ")])
def test_results_stand_beside_the_published_with_what_must_be_known(tmp_path, source, verdict):
    words = ["model=idspn", "seeds=0", *([f"data.source={source}"] if source != "scenes" else [])]
    chosen = plan(*words, out=tmp_path)
    (run,) = chosen.runs
    write_config(run.settings, run.folder)
    metrics = {"loss": 5e-4} | {f"{rule}_{t}": ap for rule, ap in RULES.items() for t in THRESHOLDS}
    (run.folder / "result.json").write_text(json.dumps({"metrics": metrics, "steps": 1, "seconds": 1.0}))
    comparison = compare(chosen)
    assert [round(row.mean, 1) for row in comparison.rows] == [98.8] * len(THRESHOLDS)
    assert [round(row.beside, 1) for row in comparison.rows] == [42.0] * len(THRESHOLDS)
    text = re.sub(" +", " ", markdown(comparison))
    assert f"| iDSPN fs 0.9 | idspn | 128 | inf | 98.8 ± 0.5 | 98.8 | 42.0 | 1 | {verdict} |" in text
    assert "Each row is judged by the rule of its publication" in text
    assert "Equal confidences are one step of our ranking" in text


def test_slot_models_are_judged_by_the_pooled_rule_and_the_paper_s_own_image_by_image():
    rules = {cell.model: (cell.metric.split("_")[0], cell.beside.split("_")[0]) for cell in clevr().cells}
    assert {name for name, rule in rules.items() if rule == ("ap", "image")} == {
        "Slot MLP",
        "Slot Attention",
        "Slot Attention*",
        "Slot Attention dagger",
    }
    assert all(rule == ("image", "ap") for name, rule in rules.items() if "DSPN" in name)


@pytest.mark.parametrize(
    ("model", "metric", "mean"), [("idspn", "image_ap_0.5", 0.982), ("slot-attention-star", "ap_0.5", 0.804)]
)
def test_a_training_learns_the_published_number_by_the_rule_of_its_publication(model, metric, mean):
    found, size = published_nearby(make_settings("clevr", model, "small"))
    assert (found.metric, found.mean, size) == (metric, pytest.approx(mean), "CLEVR's own images")


def test_a_report_judges_by_the_rule_of_the_task_alone():
    real = {"data.source": "CLEVR_v1.0"}
    assert published_value(make_settings("clevr", "idspn", "paper", overrides=real)) is None
    assert published_value(make_settings("clevr", "slot-mlp", "paper", overrides=real)).mean == pytest.approx(0.003)

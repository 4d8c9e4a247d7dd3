"""Estimated costs are those that were measured, near enough to order runs by them."""

import json
from pathlib import Path

import pytest

from setpred.paper.trainings import step_seconds
from setpred.tasks import make_settings
from setpred.tasks.settings import flatten, to_dict

BENCH = json.loads((Path(__file__).parents[2] / "results/bench/bench.json").read_text(encoding="utf-8"))
CASES = {
    **{f"autoencoding n={n}": ("autoencoding", {"data.n": n, "data.d": n}) for n in (2, 8, 16, 32)},
    "numbering n=64": ("numbering", {}),
}


@pytest.mark.parametrize("model", ["idspn", "dspn"])
@pytest.mark.parametrize("row", [row for row in BENCH["training_step"] if row["case"] in CASES], ids=str)
def test_a_step_takes_about_as_long_as_it_was_measured_to(row, model):
    task, changes = CASES[row["case"]]
    settings = make_settings(task, model, "paper", overrides={**changes, "solver.steps": row["steps"]})
    measured = row["dspn_ms" if model == "dspn" else "ours_ms"] / 1000
    assert 0.5 < step_seconds(flatten(to_dict(settings))) / measured < 2


@pytest.mark.parametrize(
    ("cheaper", "dearer"),
    [("deepsets", "bilstm"), ("bilstm", "transformer-pe"), ("transformer-pe", "idspn"), ("idspn", "dspn")],
)
def test_models_of_numbering_are_in_the_order_of_their_measured_times(cheaper, dearer):
    first, second = (step_seconds(flatten(to_dict(make_settings("numbering", m, "paper")))) for m in (cheaper, dearer))
    assert first < second


def test_more_pixels_pairs_and_iterations_cost_more():
    def cost(model, **changes):
        changes = {key.replace("__", "."): value for key, value in changes.items()}
        return step_seconds(flatten(to_dict(make_settings("clevr", model, "paper", overrides=changes))))

    assert cost("idspn") < cost("idspn", data__size=256) < cost("slot-attention", data__size=512)
    assert cost("idspn", optim__iterations="10,20") < cost("idspn") < cost("idspn", optim__iterations=None)
    assert cost("idspn", data__images=False) < cost("idspn-relation", data__images=False)

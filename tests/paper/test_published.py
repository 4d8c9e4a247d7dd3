"""The published numbers are whole, each has a model of ours, and any part of a table can be asked for in words."""

import shlex
from pathlib import Path

import pytest

from setpred.errors import UsageError
from setpred.paper.published import Cell, autoencoding, clevr, find_table, numbering
from setpred.paper.reproduce import make_plan
from setpred.paper.tables import verdict
from setpred.tasks import make_settings
from setpred.tasks.settings import parse_overrides


def plan(table, *words, preset="paper"):
    return make_plan(table, words, Path("runs/reproduce"), preset)


def test_every_cell_of_the_autoencoding_tables_is_there():
    cells = autoencoding().cells
    assert len(cells) == 5 * 5 * 5 * 3
    assert sum(cell.mean is not None for cell in cells) == 370
    assert sum(not cell.certain for cell in cells) == 10
    assert all(cell.model == "idspn+momentum+sum" for cell in cells if cell.mean is None or not cell.certain)


def test_the_tables_hold_the_numbers_the_paper_is_known_for():
    def mean(table, model, **at):
        (cell,) = [c for c in table.cells if c.model == model and c.at == at]
        return cell.mean

    assert mean(autoencoding(), "dspn", n=2, d=2, steps=10) == 1.8e-4
    assert mean(numbering(), "iDSPN", classes=4, samples=1) == 96.8
    assert mean(clevr(), "iDSPN fs 0.9", pixels=128, threshold=0.125) == 76.9
    assert mean(clevr(), "iDSPN fs 0.9", pixels=128, threshold=float("inf")) == 98.8


@pytest.mark.parametrize("name", ["autoencoding", "numbering"])
def test_every_published_model_can_be_trained(name):
    table = find_table(name)
    assert {cell.model for cell in table.cells} == set(table.models)
    for model in table.models:
        run = make_plan(name, [f"model={model}", "seeds=3"], Path("out")).runs[0]
        assert run.settings.seed == 3
        assert run.settings.model == run.model


def test_the_paper_s_idspn_without_momentum_is_told_from_ours_with():
    def names(word):
        return {cell.model for cell, _ in plan("autoencoding", word).cells}

    assert names("model=idspn") == names("model=idspn+momentum") == {"idspn+momentum"}
    assert names("model=idspn-no-momentum") == {"idspn"}
    (run,) = plan("autoencoding", "model=idspn-no-momentum", "n=2", "d=2", "steps=10", "seeds=0").runs
    assert run.settings.solver["class"] == "GradientDescent"


def test_eight_classes_are_learned_by_wider_networks():
    runs = plan("numbering", "classes=8", "samples=10", "model=BiLSTM + DA,iDSPN,transformer-pe-da", "seeds=0").runs
    widths = {run.model: (run.settings.net.hidden, run.settings.data.augment) for run in runs}
    assert widths == {"bilstm": (128, True), "idspn": (512, False), "transformer-pe": (128, True)}
    assert {run.settings.data.train for run in runs} == {6_400}
    assert next(run.settings.net.latent for run in runs if run.model == "idspn") == 512


def test_folders_are_stable_and_readable():
    (run,) = plan("autoencoding", "model=idspn+momentum", "n=4", "d=2", "steps=10", "seeds=7").runs
    assert run.folder == Path("runs/reproduce/autoencoding/idspn-n4-d2-steps10-seed7")
    (run,) = plan("numbering", "model=bilstm-da", "classes=4", "samples=1", "seeds=0", preset="small").runs
    assert run.folder == Path("runs/reproduce/numbering-small/bilstm-da-classes4-samples1-seed0")
    words = ("true", "True")
    spelled = {plan("autoencoding", "model=idspn+momentum", f"solver.settle={word}").folder.name for word in words}
    assert spelled == {"autoencoding+solver.settle=true"}


def test_the_command_of_a_run_makes_the_same_settings():
    (run,) = plan("numbering", "model=bilstm-da", "classes=8", "samples=1", "seeds=2", "trainer.patience=none").runs
    words = shlex.split(run.command)[2:]
    option = {name: words[words.index(name) + 1] for name in ("--model", "--preset", "--seed")}
    overrides = parse_overrides(words[1 : words.index("--model")])
    made = make_settings(words[0], option["--model"], option["--preset"], int(option["--seed"]), overrides)
    assert made == run.settings


def test_seeds_are_those_of_the_paper_unless_asked():
    assert len(plan("autoencoding", "n=2", "d=2", "steps=10", "model=dspn").runs) == 8
    assert len(plan("numbering", "classes=4", "samples=1", "model=dspn").runs) == 6
    chosen = plan("autoencoding", "n=2", "d=2,4", "steps=10", "model=dspn", "seeds=0-1,5").runs
    assert [run.seed for run in chosen] == [0, 0, 1, 1, 5, 5], "one seed of every cell comes first"


def test_a_change_of_the_protocol_is_said_and_kept_apart():
    changed = plan("autoencoding", "n=2", "d=2", "steps=10", "optim.lr=3e-4")
    assert changed.departures == ("optim.lr=3e-4",)
    assert changed.comparable, "the data are still the paper's"
    assert changed.folder.name == "autoencoding+optim.lr=3e-4"
    elsewhere = plan("autoencoding", "n=2", "d=2", "steps=10", "trainer.accelerator=cpu")
    assert elsewhere.departures == ()
    assert elsewhere.folder.name == "autoencoding"
    assert not plan("numbering", "model=idspn", preset="small").comparable


@pytest.mark.parametrize(
    ("mean", "said"), [(90.0, "worse"), (91.9, "worse"), (92.0, "within 2σ"), (96.0, "within 2σ"), (96.1, "better")]
)
def test_a_verdict_is_about_two_deviations(mean, said):
    assert verdict(numbering(), Cell("iDSPN", {}, "accuracy", 94.0, 1.0), mean) == said


def test_where_the_paper_leaves_a_doubt_there_is_no_verdict():
    doubtful = [c for c in autoencoding().cells if not c.certain or c.mean is None or c.std is None]
    assert len(doubtful) == 10 + 5 + 2
    assert {verdict(autoencoding(), cell, 1.0) for cell in doubtful} == {""}


@pytest.mark.parametrize(
    ("table", "words", "message"),
    [
        ("autoencoding", ["k=3"], "unknown filter 'k': there are n, d, steps, model, seeds"),
        ("autoencoding", ["n=3"], "n=3 is not in the published table: there are 2, 4, 8, 16, 32"),
        ("numbering", ["samples=5"], "samples=5 is not in the published table: there are 1, 10, 100"),
        ("autoencoding", ["n"], "'n' is not a filter: write key=value"),
        ("autoencoding", ["n=2", "n=4"], "n is given twice"),
        ("autoencoding", ["seeds=7-0"], "seeds=7-0 cannot be read: write seeds=0-7"),
        ("autoencoding", ["model=idpsn"], "unknown autoencoding model 'idpsn': did you mean idspn?"),
        ("autoencoding", ["data.n=3"], "data.n is chosen by the cell: use the filters n, d, steps"),
        ("autoencoding", ["optim.rate=1"], "unknown setting 'optim.rate'"),
        ("numbering", ["classes=8", "model=deepsets"], "no cell of the published numbering table fits"),
        ("numbring", [], "unknown table 'numbring': did you mean numbering?"),
    ],
)
def test_a_wrong_word_is_told_in_one_line(table, words, message):
    with pytest.raises(UsageError) as error:
        plan(table, *words)
    assert message in str(error.value)
    assert "\n" not in str(error.value)

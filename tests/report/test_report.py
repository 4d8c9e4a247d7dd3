"""A report is one page that stands alone and tells what the runs really did."""

import json
import math
import re
from html.parser import HTMLParser

import pytest
import torch

from setpred.errors import UsageError
from setpred.report import report
from setpred.report.runs import describe, label, predict_examples, read_run
from setpred.report.verdict import averages, headline, published
from setpred.schema import Category, Real, Schema
from setpred.tasks import make_settings
from setpred.training.run import train
from setpred.training.run_folder import write_config
from setpred.views import points
from setpred.views.numbers import wrong_numbers
from setpred.views.objects import example_figure

TINY = {
    "autoencoding": {"data.train": 256, "data.test": 64, "optim.steps": 6, "trainer.round": 3, "net.hidden": 16},
    "numbering": {"data.train": 64, "data.val": 32, "data.test": 32, "optim.steps": 6, "trainer.round": 3},
}


def tiny(folder, task, model, seed=0, **changes):
    overrides = TINY[task] | {k.replace("__", "."): v for k, v in changes.items()}
    out = folder / "-".join([task, model, str(seed), *(f"{k}{v}" for k, v in changes.items())])
    train(make_settings(task, model, "quick", seed, overrides), out, quiet=True)
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two tasks, several models, iterations, sizes and seeds, and a run that has not finished."""
    folder = tmp_path_factory.mktemp("runs")
    for model in ("idspn", "dspn"):
        tiny(folder, "autoencoding", model)
        tiny(folder, "autoencoding", model, data__d=3)
    tiny(folder, "autoencoding", "idspn", solver__steps=20)
    tiny(folder, "autoencoding", "idspn", seed=1)
    for model in ("idspn", "deepsets"):
        tiny(folder, "numbering", model)
    write_config(make_settings("numbering", "bilstm", "quick"), folder / "numbering-bilstm-unfinished")
    return folder


@pytest.fixture(scope="module")
def page(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "deep" / "report.html"
    report(folder.iterdir(), out, figures=out.parent / "figures")
    return out


class Reader(HTMLParser):
    """Collects what a browser would fetch, and checks that what is opened is closed."""

    empty = ("meta", "link", "img", "br", "use", "path", "rect")

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.ids, self.uses = [], [], [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in self.empty:
            self.open.append(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        links = [attributes[name] for name in ("href", "src", "xlink:href") if name in attributes]
        self.uses += [link[1:] for link in links if link.startswith("#")]
        self.fetched += [link for link in links if not link.startswith("#")]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.empty:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.empty:
            assert self.open.pop() == tag


def test_the_page_is_whole_and_fetches_nothing(page):
    text = page.read_text()
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.fetched == []
    assert "<script" not in text
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_every_reference_inside_the_page_leads_to_one_place(page):
    text = page.read_text()
    reader = Reader()
    reader.feed(text)
    assert len(reader.ids) == len(set(reader.ids))
    assert set(reader.uses) <= set(reader.ids)
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(reader.ids)


def test_every_colour_of_a_figure_follows_the_page_into_the_dark(page):
    svg = "".join(re.findall(r"<svg.*?</svg>", page.read_text(), flags=re.DOTALL))
    assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) == set()
    assert "var(--ink)" in svg


def test_all_that_was_asked_for_is_there(page):
    text = page.read_text()
    for title in ("Runs", "Models compared", "Learning", "Inner optimisation", "Examples", "Worst failures"):
        assert f">{title}</h2>" in text
    for title in (
        "n=4, d=2: loss at equal iterations",
        "n=4, d=2: loss at equal computation",
        "n=4: loss relative to DSPN",
    ):
        assert title in text
    assert "fraction of the mean held by the worst 1 %" in text
    assert "1 run has not finished" in text
    steps = make_settings("numbering", "bilstm", "quick").optim.steps
    assert f"0 of {steps:,}" in text
    assert "first two of 3 dimensions" in text


def test_the_page_says_first_what_was_found_and_explains_its_words(page):
    text = page.read_text()
    first = re.search(r"<h1>(.*?)</h1>", text)[1]
    assert re.search(r"rebuilds sets with a loss of [\d.e-]+", first)
    assert re.search(r"<li>.* numbers [\d.]+ % of the sets right", text)
    assert "rebuild the set from that vector" in text
    assert "accuracy: the fraction of test sets in which every number is right." in text


def test_the_first_headline_is_about_the_problem_with_most_to_compare(folder):
    names = ("autoencoding-idspn-0", "numbering-idspn-0", "numbering-deepsets-0")
    first, second = headline([read_run(folder / name) for name in names])
    assert "of the sets right; " in first
    assert re.search(r"with a loss of [\d.e-]+; the same average set for every input has [\d.e-]+ \(", second)


def test_figures_are_saved_as_pictures_on_request(page):
    from PIL import Image

    pictures = list((page.parent / "figures").iterdir())
    stories = {picture.name.split("-")[0] for picture in pictures}
    assert stories == {"accuracy", "losses", "relative", "learning", "inner", "examples", "grid", "failures"}
    for picture in pictures:
        with Image.open(picture) as image:
            assert min(image.size) > 100


def test_the_same_runs_give_the_same_page_in_any_order(folder, tmp_path):
    runs = [folder / "numbering-deepsets-0", folder / "numbering-bilstm-unfinished"]
    once, again = (report(order, tmp_path / "page.html").read_bytes() for order in (runs, runs[::-1]))
    assert once == again


def test_a_folder_of_runs_stands_for_the_runs_in_it(folder, tmp_path):
    one, other = (report(runs, tmp_path / name) for name, runs in (("a.html", folder.iterdir()), ("b.html", [folder])))
    assert one.read_bytes() == other.read_bytes()


def test_predictions_in_the_report_are_those_that_were_judged(folder):
    for name in ("autoencoding-idspn-0", "numbering-idspn-0", "numbering-deepsets-0"):
        run = read_run(folder / name)
        error = predict_examples(run).examples.error
        if run.task == "autoencoding":
            assert float(error.mean()) == pytest.approx(run.metric("loss"), rel=1e-3)
        else:
            assert float((error == 0).float().mean()) == pytest.approx(run.metric("accuracy"), abs=1e-6)


def test_the_inner_optimisation_passes_through_the_prediction(folder):
    shown = predict_examples(read_run(folder / "autoencoding-idspn-0"))
    at_training_steps = shown.descent.error[10]
    assert shown.descent.error.shape == (101, 64)
    assert torch.allclose(at_training_steps, shown.examples.error, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [([0, 1, 2], 0), ([2, 0, 1], 0), ([0, 0, 1], 1), ([0, 0, 0], 2), ([3, 4, 5], 3), ([0, 1, 3], 1)],
)
def test_a_number_is_wrong_when_taken_or_too_large(numbers, wrong):
    assert int(wrong_numbers(torch.zeros(3, dtype=torch.long), torch.tensor(numbers)).sum()) == wrong


def test_seeds_are_averaged_and_settings_are_not(folder):
    found = averages(read_run(path) for path in sorted(folder.iterdir()) if "autoencoding" in path.name)
    assert sorted(len(average.values) for average in found) == [1, 1, 1, 1, 2]


def test_published_numbers_stand_beside_the_papers_settings_only(tmp_path):
    exact = make_settings("autoencoding", "idspn", "paper", 3, {"data.n": 4, "data.d": 4, "solver.steps": 10})
    other = make_settings("autoencoding", "idspn", "paper", 3, {"data.n": 4, "data.d": 4, "optim.lr": 1e-4})
    augmented = make_settings("numbering", "bilstm", "paper", 0, {"data.augment": True})
    for name, settings in (("exact", exact), ("other", other), ("augmented", augmented)):
        write_config(settings, tmp_path / name)
    assert published(read_run(tmp_path / "exact")).mean == pytest.approx(5.7e-4)
    assert published(read_run(tmp_path / "other")) is None
    assert published(read_run(tmp_path / "augmented")).mean == pytest.approx(0.9812)


def test_labels_say_what_differs_and_nothing_else(folder):
    short, long = (read_run(folder / name) for name in ("autoencoding-idspn-0", "autoencoding-idspn-0-solver__steps20"))
    assert label(short, [short]) == "iDSPN + momentum"
    assert label(short, [short, long]) == "iDSPN + momentum (T=10)"
    assert describe(long, [short, long], always=True) == "n=4, d=2, T=20"


def test_a_run_that_ended_in_nan_is_reported_as_that(folder, tmp_path):
    import shutil

    from safetensors.torch import load_file, save_file

    run = tmp_path / "broken"
    shutil.copytree(folder / "autoencoding-idspn-0", run)
    weights = {name: tensor * math.nan for name, tensor in load_file(run / "model.safetensors").items()}
    save_file(weights, run / "model.safetensors")
    result = json.loads((run / "result.json").read_text())
    result["metrics"]["loss"] = math.nan
    (run / "result.json").write_text(json.dumps(result))
    text = report([run, folder / "autoencoding-dspn-0"], tmp_path / "page.html").read_text()
    assert "NaN" in text
    assert "broken is not shown in pictures" in text


def test_names_from_a_folder_cannot_become_markup(folder, tmp_path):
    text = report([folder / "autoencoding-idspn-0"], tmp_path / "page.html", title="a <b> & c").read_text()
    assert "a &lt;b&gt; &amp; c" in text
    assert "a <b> & c" not in text


def test_wrong_requests_are_told_in_one_line(folder, tmp_path):
    with pytest.raises(UsageError, match="no run to report on"):
        report([], tmp_path / "page.html")
    with pytest.raises(UsageError, match="there is no run folder"):
        report([tmp_path / "missing"], tmp_path / "page.html")
    with pytest.raises(UsageError, match="is a folder: name the HTML file"):
        report([folder / "autoencoding-idspn-0"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_training_loss_with_the_loss_of_guesses_is_told_from_the_loss_of_the_sets(folder, tmp_path, page):
    guessing = tiny(tmp_path, "autoencoding", "idspn", init="GuessedInit")
    said = "plus the loss of its guesses"
    assert said in report([guessing], tmp_path / "page.html").read_text()
    assert said not in page.read_text()


def test_runs_that_differ_in_what_one_of_them_lacks_are_told_apart(tmp_path):
    runs = [read_run(tiny(tmp_path, "autoencoding", "idspn", **more)) for more in ({}, {"solver__clip": 10.0})]
    assert [describe(run, runs) for run in runs] == ["solver.clip=none", "solver.clip=10.0"]
    assert label(runs[0], runs) != label(runs[1], runs)


def test_the_grid_lays_models_only_over_the_sets_that_they_were_given(tmp_path, monkeypatch):
    runs = [read_run(tiny(tmp_path, "autoencoding", model, seed)) for model, seed in (("idspn", 0), ("dspn", 1))]
    drawn = []
    monkeypatch.setattr(points, "_points", lambda axes, points, colour, marker, name: drawn.append(name))
    points.grid([(run.settings, run.name, predict_examples(run).examples) for run in runs])
    assert drawn == [runs[0].name]


def test_runs_with_few_test_examples_stand_beside_others(tmp_path):
    runs = [tiny(tmp_path, "autoencoding", "idspn"), tiny(tmp_path, "autoencoding", "dspn", data__test=2)]
    report(runs, tmp_path / "report.html")
    assert "worst of 2 to 64 test sets" in (tmp_path / "report.html").read_text()


def test_a_dollar_in_a_name_is_no_mathematics(tmp_path):
    schema = Schema({"at": Real(2), "kind": Category("$_$", "$10")}, size=2)
    objects = [
        {"at": [0.0, 1.0], "kind": "$_$", "confidence": 1.0},
        {"at": [1.0, 0.0], "kind": "$10", "confidence": 1.0},
    ]
    figure = example_figure(schema, "vector", ["$a$_$"], [torch.zeros(3)], [objects], [(1, 1)])
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").exists()

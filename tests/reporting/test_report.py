"""The HTML report: its sentences, its completeness, and that it needs no other file."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from deep_interest.evaluation.comparison import ModelRuns, compare
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.evaluation.published import PublishedMetric
from deep_interest.figures.comparison import results_chart
from deep_interest.figures.curves import curves_chart
from deep_interest.figures.plotly import plotly_figure
from deep_interest.figures.plotly_panels import split_panels
from deep_interest.reporting.groups import calibration, gauc_by_group
from deep_interest.reporting.report import Report, report_html
from deep_interest.reporting.sentences import sentences

USERS = np.repeat(np.arange(200), 4)
LABELS = np.tile([1, 0, 1, 0], 200)


def results(*, seeds=2, truth=False, gain=2.0, minimum=None, pnn=False):
    rng = np.random.default_rng(0)

    def runs(name, strength, **options):
        p = 1 / (1 + np.exp(-(strength * LABELS + rng.standard_normal((seeds, len(LABELS))))))
        never = np.full(seeds, 10.0)
        return ModelRuns(name, tuple(range(seeds)), p, never, never, **options)

    test = pd.DataFrame({"user": USERS, "label": LABELS})
    if truth:
        test["true_probability"] = 0.2 + 0.6 * LABELS
    models = {
        "popularity": runs("Popularity", 0.1), "base": runs("BaseModel", 0.5, baseline=True, validation_gauc=0.6),
        "din": runs("DIN <b>", gain),
    }  # fmt: skip
    if pnn:
        models["pnn"] = runs("PNN", 0.5, baseline=True, validation_gauc=0.7)
    return compare(test, models, minimum=minimum)


def report(**options):
    curves = pd.DataFrame(
        {"seed": [1, 1], "epoch": [1, 2], "train_loss": [0.6, 0.5], "test_loss": [0.7, 0.6]}
    )
    figures = {
        "results": plotly_figure(results_chart(results(), title="All & more")),
        "curves": plotly_figure(curves_chart({"DIN": curves})),
    }
    settings = {
        "din": {"seeds": [0], "config": {"hidden": [8]}, "training": {"mba": 2.5}, "tuned": {"training.mba": 2.5}, "recipe": "ours",
                "device": "cpu", "versions": {"torch": "2"}}, "base": {},
    }  # fmt: skip
    summary = pd.DataFrame(
        {"split": ["train", "test"], "rows": [12345, 10], "mean_history": [0.25, np.nan], "unknown_items": [0.0041, np.nan]}
    )  # fmt: skip
    return Report(
        "A <shop>",
        "next_item",
        results(),
        summary,
        figures,
        settings,
        {"base": [PublishedMetric("gauc", 0.86, "Some & paper")]},
        **options,
    )


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self._script = [], [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        self._script = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._script = False

    def handle_data(self, data):
        self.text += "" if self._script else data


@pytest.fixture(scope="module")
def page():
    return report_html(report())


def test_page_references_no_external_resource(page):
    for tag, attributes in Page(page).attributes:
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith("data:"), (tag, attributes)
        assert tag not in ("img", "iframe")


def test_names_are_shown_as_text_and_never_as_markup(page):
    parsed = Page(page)
    assert "A <shop>" in parsed.text and "DIN <b>" in parsed.text and "Some & paper" in parsed.text
    assert "b" not in parsed.tags and "shop" not in parsed.tags


def test_every_panel_has_an_element_and_data(page):
    data = json.loads(re.search(r"^const figures = (.*);$", page, re.MULTILINE)[1])
    ids = {attributes.get("id") for tag, attributes in Page(page).attributes if tag == "div"}
    assert set(data) == {"results-0", "curves-0", "curves-1"} <= ids


def test_table_has_every_model_interval_and_published_metric(page):
    text = " ".join(Page(page).text.split())
    for row in results().itertuples():
        assert f"{row.gauc:.4f}" in text
    din = results().set_index("model").loc["din"]
    assert f"{din['difference']:+.4f} [{din['difference_low']:+.4f}, {din['difference_high']:+.4f}]" in text
    assert "0.8600¹" in text


def test_values_tuned_on_other_data_are_marked(page):
    marked = "training.mba = 2.5 (found on other samples, features or behaviours than the present ones)"
    assert marked not in Page(page).text
    made = report()
    made.settings["din"]["tuned_on_other_data"] = True
    assert marked in Page(report_html(made)).text


def test_page_lists_data_options_tuned_values_and_versions(page):
    text = Page(page).text
    for expected in ("12,345", "0.41%", "training.mba = 2.5", "torch 2", '"hidden"', "Recipe: ours"):
        assert expected in text


def test_shares_of_unknown_values_are_a_table_of_their_own(page):
    tables = re.findall(r"<table.*?</table>", page[page.index("<h2>Dataset") :], re.DOTALL)
    counts, shares = (re.findall(r"<th>(.*?)</th>", table) for table in tables)
    assert counts == ["split", "rows", "mean history"]
    assert shares == ["split", "items"]
    assert tables[1].count("<tr") == 2  # heading and train; the test split has no share


def test_marks_are_explained_only_if_differences_are_tested():
    untested = replace(report(), results=results(minimum=EvaluationParameters(minimum_users=201)))
    assert "* significant at the 5% level" in report_html(report())
    assert "* significant at the 5% level" not in report_html(untested)


def test_sentences_claim_only_what_the_intervals_support():
    text = " ".join(sentences(results(), protocol="next_item"))
    din = results().set_index("model").loc["din"]
    assert f"DIN <b> has the highest GAUC, {din['gauc']:.4f}" in text
    assert "DIN <b> is significantly better than BaseModel: +" in text
    assert "Popularity alone, which ignores the user" in text
    assert "The intervals include this variation." in text


def test_a_gain_that_may_be_chance_is_not_claimed():
    text = " ".join(sentences(results(gain=0.55), protocol="by_day"))
    assert "No gain over BaseModel is significant." in text
    assert re.search(r"The test set cannot separate (Popularity and )?DIN <b> from BaseModel", text)
    assert "drawn" not in text


@pytest.mark.parametrize(("gain", "sentence"), [
    (2.0, "DIN <b> is significantly better than PNN, the best baseline on the validation set: +"),
    (0.5, "No gain over PNN, the best baseline on the validation set, is significant."),
])  # fmt: skip
def test_models_are_compared_with_the_best_baseline_too(gain, sentence):
    assert sentence in " ".join(sentences(results(seeds=8, gain=gain, pnn=True), protocol="by_day"))


def test_sentences_mention_a_single_seed_and_the_oracle():
    text = " ".join(sentences(results(seeds=1, truth=True), protocol="by_day"))
    assert "trained with one seed only" in text
    assert "no difference is tested" in text and "significantly" not in text
    assert "says nothing about a real shop" in text


def test_small_test_set_gets_no_conclusions_and_the_reason():
    small = results(minimum=EvaluationParameters(minimum_users=201))
    text = " ".join(sentences(small, protocol="by_day"))
    assert (
        "No intervals, significance marks or conclusions are given: the test set has only 200 users with both classes"
        in text
    )
    assert "significantly" not in text and "cannot separate" not in text and "intervals include" not in text
    assert "RelaImpr is omitted" in text


def test_separate_panels_contain_all_traces_of_the_figure():
    figure = report().figures["curves"]
    panels = split_panels(figure)
    assert sum(len(panel["data"]) for panel in panels) == len(figure["data"])
    assert [panel["layout"]["meta"]["title"] for panel in panels] == ["Training loss", "Test loss"]
    assert all(trace["xaxis"] == "x" for panel in panels for trace in panel["data"])


def test_calibration_by_hand():
    table = calibration(np.array([0, 1, 1, 1]), np.array([0.1, 0.2, 0.8, 0.6]), bins=2)
    assert table["predicted"].tolist() == pytest.approx([0.15, 0.7])
    assert table["observed"].tolist() == [0.5, 1.0]
    assert table["error"].tolist() == pytest.approx([(0.35 + 0.3) / 2] * 2)


def test_gauc_by_group_by_hand():
    users = np.array([1, 1, 2, 2, 3, 3, 4, 4])
    labels = np.array([1, 0, 1, 0, 1, 0, 1, 0])
    scores = np.array([0.9, 0.1, 0.1, 0.9, 0.9, 0.1, 0.9, 0.1])
    sizes = np.array([1, 1, 1, 1, 9, 9, 9, 9])
    table = gauc_by_group(users, labels, {"DIN": scores}, sizes)
    assert dict(zip(table["group"], table["gauc"], strict=True)) == {"1 to 5": 0.5, "6 to 9": 1.0}
    assert table["samples"].sum() == 8


def test_charts_average_metrics_over_seeds_not_predictions():
    users, labels = np.array([1, 1, 1]), np.array([1, 0, 0])
    seeds = np.array([[0.6, 0.9, 0.1], [0.6, 0.1, 0.9]])  # each ranks one negative too high, their mean none
    table = gauc_by_group(users, labels, {"DIN": seeds}, np.ones(3, int))
    assert table["gauc"].tolist() == [0.5]
    pooled = calibration(labels, seeds, bins=1)
    assert pooled["samples"].tolist() == [6]
    assert pooled["observed"].tolist() == pytest.approx([1 / 3])

"""The HTML report: its sentences, its completeness, and that it needs no other file."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from unittest.mock import patch

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
from deep_interest.reporting.groups import calibration, ctr_by_day, gauc_by_group
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


def tables_of(page, section):
    """The tables of a section as rows of strings, headings first."""
    part = re.search(rf'<section class="{section}".*?</section>', page, re.DOTALL)[0]
    return [
        [
            [Page(cell).text for cell in re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
            for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        ]
        for table in re.findall(r"<table.*?</table>", part, re.DOTALL)
    ]


def page_of(made):
    """The page without the library that draws the charts."""
    with patch("plotly.offline.get_plotlyjs", return_value=""):
        return report_html(made)


@pytest.fixture(scope="module")
def page():
    return page_of(report())


@pytest.mark.slow
def test_page_references_no_external_resource():
    for tag, attributes in Page(report_html(report())).attributes:
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith(("data:", "#")), (tag, attributes)
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
    assert marked in Page(page_of(made)).text


def test_page_lists_data_options_tuned_values_and_versions(page):
    text = Page(page).text
    for expected in ("12,345", "0.41%", "training.mba = 2.5", "torch 2", "hidden = [8]", "Recipe: ours"):
        assert expected in text


def test_best_models_are_on_top_and_the_oracle_is_apart():
    made = replace(report(), results=results(truth=True))
    ((headings, *rows),) = tables_of(page_of(made), "results")
    assert headings[:3] == ["Model", "GAUC", "Validation GAUC"]
    models = [row[0] for row in rows]
    assert models == ["DIN <b>", "BaseModel", "Popularity", "Oracle (true probability)"]
    assert [row[2] for row in rows] == ["–", "0.6000", "–", "–"]
    assert '<tbody class="reference"><tr><th scope="row">Oracle' in page_of(made)


def test_verdict_comes_before_the_table_and_names_the_best_model(page):
    text = Page(page).text
    assert "DIN <b> has the highest GAUC" in Page(re.search(r'<p class="verdict">.*?</p>', page)[0]).text
    assert text.index("has the highest GAUC") < text.index("Press a heading")


def test_columns_are_sorted_by_buttons_that_say_how(page):
    head = re.search(r'<table id="results-table".*?</thead>', page, re.DOTALL)[0]
    headings = re.findall(
        r'<th scope="col" aria-sort="(\w+)"[^>]*><button type="button">(.*?)</button></th>', head
    )
    assert len(headings) == head.count("<th ")
    assert [name for sort, name in headings if sort != "none"] == ["GAUC"]
    assert 'data-better="lower"><button type="button">LogLoss' in head


def test_every_table_has_a_caption_and_headings_with_a_scope(page):
    tables = re.findall(r"<table.*?</table>", page, re.DOTALL)
    assert len(tables) == 4
    for table in tables:
        assert re.match(r"<table[^>]*><caption><span>[^<]+</span></caption><thead>", table)
        assert not re.findall(r"<th(?![^>]* scope=)(?!ead)", table)
        assert table.count('<th scope="row">') == table.count("<tr") - 1


def test_narrow_screens_show_few_columns_and_a_button_for_the_others(page):
    row = re.search(r"<tbody>(<tr.*?</tr>)", page, re.DOTALL)[1]
    always = re.findall(r"<t[hd](?![^>]*more)[^>]*>(.*?)</t[hd]>", row, re.DOTALL)
    assert len(always) == 3 < row.count("<td")
    assert 'class="columns" aria-controls="results-table" aria-expanded="false"' in page


def test_every_link_of_the_contents_leads_to_a_part_of_the_page(page):
    parsed = Page(page)
    links = [attributes["href"][1:] for tag, attributes in parsed.attributes if tag == "a"]
    ids = [attributes["id"] for _, attributes in parsed.attributes if "id" in attributes]
    assert (
        {"conclusions", "results", "charts", "dataset", "settings", "chart-curves"} <= set(links) <= set(ids)
    )
    assert len(ids) == len(set(ids))


def test_only_the_line_on_the_run_depends_on_time_and_commit():
    runs = [
        {"time": "2026-11-25T03:10:00+00:00", "commit": "0123456789abcdef", "changed": True},
        {"time": "2026-11-26T04:11:00+00:00", "commit": None, "changed": None},
    ]
    one, other = (page_of(replace(report(), run=run)).splitlines() for run in runs)
    different = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    assert [Page(line).text for line in different[0]] == [
        "Made on 2026-11-25 at 03:10 UTC, from commit 0123456789ab with uncommitted changes.", "Made on 2026-11-26 at 04:11 UTC.",
    ]  # fmt: skip
    assert len(different) == 1


def test_page_without_a_playable_model_has_no_section_for_it(page):
    assert "Try DIN" not in Page(page).text
    assert 'id="din"' not in page and "const playable" not in page


def test_shares_of_unknown_values_are_a_table_of_their_own(page):
    counts, shares, *_ = tables_of(page, "dataset")
    assert counts == [["split", "train", "test"], ["rows", "12,345", "10"], ["mean history", "0.25", ""]]
    assert shares == [["split", "train"], ["items", "0.41%"]]  # the test split has no share


def test_dropped_rows_are_listed_with_their_reasons():
    made = report()
    summary = pd.DataFrame(
        {"split": ["train", "left out"], "rows": [12345, 1002], "reason": ["", "duplicate <behaviors>"]}
    )
    counts, dropped = tables_of(page_of(replace(made, summary=summary)), "dataset")
    assert counts == [["split", "train"], ["rows", "12,345"]]
    assert dropped == [["Reason", "Rows"], ["duplicate <behaviors>", "1,002"]]


def test_marks_are_explained_only_if_differences_are_tested():
    untested = replace(report(), results=results(minimum=EvaluationParameters(minimum_users=201)))
    assert "* significant at the 5% level" in page_of(report())
    assert "* significant at the 5% level" not in page_of(untested)


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


def test_ctr_by_day_by_hand():
    days, splits = np.array([20001, 20000, 20001, 20003]), np.array(["train", "train", "train", "test"])
    table = ctr_by_day(days, splits, np.array([1, 0, 0, 1]))
    assert table["date"].tolist() == [
        "Oct 04",
        "Oct 05",
        "Oct 07",
    ]  # 20,000 days after 1970-01-01 is 2024-10-04
    assert table["ctr"].tolist() == [0, 0.5, 1]
    assert table["impressions"].tolist() == [1, 2, 1]
    assert table["split"].tolist() == ["train", "train", "test"]


def test_charts_average_metrics_over_seeds_not_predictions():
    users, labels = np.array([1, 1, 1]), np.array([1, 0, 0])
    seeds = np.array([[0.6, 0.9, 0.1], [0.6, 0.1, 0.9]])  # each ranks one negative too high, their mean none
    table = gauc_by_group(users, labels, {"DIN": seeds}, np.ones(3, int))
    assert table["gauc"].tolist() == [0.5]
    pooled = calibration(labels, seeds, bins=1)
    assert pooled["samples"].tolist() == [6]
    assert pooled["observed"].tolist() == pytest.approx([1 / 3])


@pytest.mark.slow
def test_changes_since_the_last_run_are_a_section_if_there_was_one():
    assert tables_of(report_html(report()), "results")
    assert 'class="changes"' not in report_html(report())
    earlier = results().assign(gauc=0.5)
    text = report_html(report(earlier=("r1", "2026-01-02", earlier)))
    headings, *rows = tables_of(text, "changes")[0]
    assert headings == ["Model", "Before", "Now", "Change"]
    assert {row[0] for row in rows} == {"Popularity", "BaseModel", "DIN <b>"}
    assert '<a href="#changes">Changes since the last run</a>' in text


def power(**changes):
    """Return a row for DIN, and one for DIEN with a single seed."""
    row = {"model": "din", "name": "DIN <b>", "base": "BaseModel", "users": 200, "days": 3, "seeds": True, "smallest_difference": 0.004,
           "factor_0.001": np.inf, "factor_0.002": 4.1, "factor_0.005": 0.7}  # fmt: skip
    other = row | {"model": "dien", "name": "DIEN", "seeds": False, "smallest_difference": 0.003}
    return pd.DataFrame([row | changes, other | changes])


def test_the_report_says_what_the_test_set_can_show():
    page = report_html(report(power=power()))
    section = page[page.index('id="power"') :]
    section = section[: section.index("</section>")]
    assert "200 users with both classes on 3 days" in section
    assert section.index("DIEN (users only)") < section.index(
        "DIN &lt;b&gt;"
    )  # the smallest difference first
    assert ">more seeds<" in section and "more users alone do not help" in section
    assert "4.1 × the users (820, 13 days)" in section  # 4.1 · 200, and 4.1 · 3 = 12.3 days
    assert "this test set" in section
    assert "the median over the models is 0.0035" in section
    assert "one of the two models has one seed" in section


def test_large_factors_and_a_single_day_are_written_in_full():
    page = report_html(report(power=power(days=1, **{"factor_0.002": 1234.5})))
    assert "200 users with both classes on 1 day." in page
    assert "1,234 × the users (246,900, 1,235 days)" in page


def test_without_known_days_the_report_counts_users_alone():
    page = report_html(report(power=power(days=np.nan, seeds=True)))
    assert "4.1 × the users (820)" in page and "(users only)" not in page


@pytest.mark.parametrize("table", [None, power().iloc[:0]])
def test_without_a_comparison_the_report_has_no_section_on_power(table):
    assert 'id="power"' not in report_html(report(power=table))


def groups():
    """Two models in two groups; DIN is worse in the second one, the third group is too small."""
    row = {
        "grouping": "length of the history",
        "samples": 1234,
        "users": 50,
        "gauc": 0.6,
        "gauc_low": 0.55,
        "gauc_high": 0.65,
    }
    none = dict.fromkeys(["difference", "difference_low", "difference_high"], np.nan)
    worse = {"difference": -0.02, "difference_low": -0.03, "difference_high": -0.01}
    small = dict.fromkeys(["gauc", "gauc_low", "gauc_high"], np.nan) | none | {"users": 3}
    return pd.DataFrame(
        [
            row
            | {"group": group, "model": model, "name": name}
            | (small if group == "9" else none if model == "base" else worse)
            for group in ("1 to 4", "9")
            for model, name in (("base", "BaseModel"), ("din", "DIN <b>"))
        ]
    )


def test_the_report_says_for_whom_the_models_work():
    page = report_html(report(groups=groups()))
    section = page[page.index('id="groups"') :]
    section = section[: section.index("</section>")]
    assert "By length of the history" in section and "DIN &lt;b&gt;, difference" in section
    assert "1,234" in section and "-0.0200" in section and "[-0.0300, -0.0100]" in section
    assert (
        "Worse than BaseModel" in section and "1 comparisons: DIN &lt;b&gt; in the group 1 to 4." in section
    )


@pytest.mark.parametrize("table", [None, groups().iloc[:0]])
def test_without_groups_the_report_has_no_section_on_them(table):
    assert 'id="groups"' not in report_html(report(groups=table))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smallest_model", "worth"])
def test_sections_of_tables_without_rows_are_left_out(name):
    identifier = name.partition("_")[0]
    for table in (None, pd.DataFrame()):
        assert f'id="{identifier}"' not in report_html(report(**{name: table}))


def test_the_report_has_the_sections_of_its_tables():
    smallest = pd.DataFrame(
        [("base", "BaseModel", 10, 40.0, 0.5, True, "best", True, True)],
        columns=["model", "name", "parameters", "bytes", "microseconds", "seeds", "verdict", "smallest", "fastest"],
    ).assign(margin=0.002, level=0.05, difference=np.nan, low=np.nan, high=np.nan, p_holm=np.nan)  # fmt: skip
    worth = pd.DataFrame(
        [("din", "users", value, 100.0, 0.6, 0.01, 2.0, -0.01, -0.02, 0.0, 0.2, None, 0.01, 0.0, 0.02) for value in (0.5, 1.0)],
        columns=["model", "axis", "value", "samples", "gauc", "gauc_std", "train_seconds", "difference", "difference_low", "difference_high",
                 "p_holm", "interval_note", "gain", "gain_low", "gain_high"],
    )  # fmt: skip
    page = report_html(report(smallest_model=smallest, worth=worth))
    assert '<a href="#smallest">Smallest model that is not worse</a>' in page
    assert "No smaller or faster model is shown to lose less than 0.002 GAUC against BaseModel" in page
    assert '<a href="#worth">Worth of data</a>' in page
    assert "The last doubling of the log, from 50 % to 100 % of the training users" in page

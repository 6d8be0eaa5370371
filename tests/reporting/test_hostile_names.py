"""Names that contain markup are shown as text on every page, never as markup or script."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from deep_interest.evaluation.comparison import ModelRuns, compare
from deep_interest.evaluation.page import results_markdown
from deep_interest.evaluation.published import PublishedMetric
from deep_interest.figures.chart import Bars, Chart, Panel, Points
from deep_interest.figures.plotly import plotly_figure
from deep_interest.reporting.report import Report, report_html
from deep_interest.retraining.summary import early_end, summary_page
from deep_interest.training.parameters import Recipe

EVIL = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '<a href="https://example.org">x</a>',
    "a & b | c $title \u2028",
]


class Elements(HTMLParser):
    """The start tags outside of scripts, their attributes, the text, and the contents of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.text, self.scripts = "", []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.names |= {name for name, _ in attributes}
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags[-1:] == ["script"] and not self.closed:
            self.scripts[-1] += data
        else:
            self.text += data

    def handle_endtag(self, tag):
        self.closed = True

    def feed(self, data):
        self.closed = False
        super().feed(data)

    def parse_starttag(self, i):
        self.closed = False
        return super().parse_starttag(i)


def results(name: str) -> pd.DataFrame:
    labels = np.tile([1, 0], 60)
    predictions = np.random.default_rng(0).uniform(size=(1, len(labels)))
    never = np.array([10.0])
    models = {
        "base": ModelRuns(
            f"Base {name}", (0,), predictions, never, never, baseline=True, validation_gauc=0.5
        ),
        "din": ModelRuns(name, (0,), predictions, never, never),
    }
    return compare(pd.DataFrame({"user": np.repeat(np.arange(30), 4), "label": labels}), models)


def chart(name: str) -> Chart:
    marks = (Bars((0, 1), (1, 2), name=name), Points((0, 1), (1, 2), name=name, hover=(name, name)))
    panel = Panel(
        title=name, x_label=name, y_label=name, y_ticks=(name, "plain"), right_labels=(name, "1"), marks=marks
    )
    return Chart(title=name, panels=(panel,), note=name, metrics={})


def page_of(name: str) -> str:
    summary = pd.DataFrame({"split": [name], name: [1.5], "unknown_<b>": [0.5]})
    settings = {
        "din": {"seeds": [0], "config": {name: name}, "training": {}, "tuned": {name: name}, "recipe": name, "device": name,
                "versions": {name: name}},
    }  # fmt: skip
    published = {"base": [PublishedMetric("gauc", 0.8, name)]}
    playable = {"name": name, "seed": 1, "user": name, "items": [name], "normalize": "none", "parameters": ""}
    return report_html(
        Report(
            name, name, results(name), summary, {name: plotly_figure(chart(name))}, settings, published,
            recipes={name: Recipe()}, playable=playable,
        )
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", EVIL)
def test_names_add_no_tag_attribute_or_script_to_the_report(name):
    plain, hostile = Elements(page_of("plain")), Elements(page_of(name))
    assert hostile.tags == plain.tags
    assert hostile.names == plain.names
    assert name.strip() in hostile.text
    assert len(hostile.scripts) == len(plain.scripts) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", EVIL)
def test_chart_data_close_no_script_and_are_unchanged(name):
    island = re.search(r"^const figures = (.*);$", page_of(name), re.MULTILINE)[1]
    assert "<" not in island
    playable = re.search(r"^const playable = (.*);$", page_of(name), re.MULTILINE)[1]
    assert "<" not in playable and json.loads(playable)["items"] == [name]
    figure = json.loads(island)[f"{name}-0"]
    shown = name.replace("<", "&lt;")  # Plotly turns the entity back into the character
    assert figure["data"][1]["text"] == [shown, shown]
    assert figure["data"][0]["name"] == shown
    assert figure["layout"]["yaxis"]["ticktext"] == [shown, "plain"]
    assert figure["layout"]["meta"]["title"] == name


@pytest.mark.parametrize("name", EVIL)
def test_plotly_json_for_kedro_viz_contains_no_foreign_markup(name):
    text = json.dumps(plotly_figure(chart(name)))
    figure = json.loads(text)
    figure["layout"]["meta"] = None
    markup = re.findall(r"<[^>]*>?", json.dumps(figure))
    assert set(markup) <= {"<b>", "</b>", "<extra>", "</extra>"}


@pytest.mark.parametrize("name", EVIL)
def test_name_stays_in_one_cell_of_a_markdown_table(name):
    page = results_markdown(results(name), title=name, protocol="rated", test_samples=1, test_users=1)
    assert page.splitlines()[1:2] == [""]
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert "<" not in page


def test_message_does_not_end_its_code_block():
    page = summary_page(early_end("shop", "din", "failed", "```\n<script>alert(1)</script>"))
    assert page.count("```") == 2

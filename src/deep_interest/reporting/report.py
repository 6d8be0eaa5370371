"""``report.html``: everything about one dataset's results on one self-contained page."""

import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from string import Template
from typing import Any, NamedTuple

import pandas as pd

from deep_interest.evaluation.comparison import ORACLE, by_gauc
from deep_interest.evaluation.page import (
    SIGNIFICANCE_LEVEL,
    SUPERSCRIPTS,
    ResultsTable,
    describe_seeds,
    results_table,
)
from deep_interest.evaluation.published import PublishedMetric
from deep_interest.evaluation.table_notes import name_of
from deep_interest.figures.plotly_marks import original_text
from deep_interest.figures.plotly_panels import split_panels
from deep_interest.reporting.changes import changes_html
from deep_interest.reporting.dataset_section import dataset_html
from deep_interest.reporting.groups_section import groups_html
from deep_interest.reporting.html_tables import HtmlRow, sortable_table
from deep_interest.reporting.leaderboard import leaderboard_html
from deep_interest.reporting.playable_din import playable_html
from deep_interest.reporting.power_section import power_html
from deep_interest.reporting.run_record import run_html
from deep_interest.reporting.sentences import sentences
from deep_interest.reporting.settings_section import settings_html
from deep_interest.reporting.smallest_section import smallest_html
from deep_interest.reporting.worth_section import worth_html
from deep_interest.training.parameters import Recipe

SCRIPTS = ("charts.js", "tables.js", "din.js")  # of the page, in this order


@dataclass(frozen=True)
class Report:
    """Contents of the page.

    Attributes:
        title: heading of the page.
        protocol: key of the protocol that made and split the samples.
        results: table of `evaluation.comparison.compare`.
        summary: table ``samples_summary`` of the dataset.
        figures: output of `figures.plotly.plotly_figure` by name, in the order of the page.
        settings: options, seeds and versions by model key; empty for a model whose settings are unknown.
        published: published metrics by model key.
        base: key of the model that the others are compared with.
        recipes: the configured recipes by name.
        run: when and from which commit the report is made (`run_record.describe_run`); empty if the page does not show it.
        playable: a DIN that readers can try (`playable_din.playable_din`); empty if there is none.
        leaderboard: table of the dataset's leaderboard; None if there is none.
        groups: output of `evaluation.group_table.group_table`; None or no rows if there is none.
        power: output of `evaluation.power_table.power_table`; None or no rows if there is nothing to compare.
        smallest_model: output of `evaluation.smallest_model.smallest_model_table`; None or no rows if there is none.
        worth: output of `evaluation.worth_table.worth_table` with the column ``model``; None or no rows if there is none.
        earlier: id, description and results table of the run to compare with (`history.earlier_results`); None if there is none.
    """

    title: str
    protocol: str
    results: pd.DataFrame
    summary: pd.DataFrame
    figures: Mapping[str, dict[str, Any]]
    settings: Mapping[str, dict[str, Any]]
    published: Mapping[str, Sequence[PublishedMetric]]
    base: str = "base"
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    playable: Mapping[str, Any] = field(default_factory=dict)
    earlier: tuple[str, str, pd.DataFrame] | None = None
    leaderboard: pd.DataFrame | None = None
    power: pd.DataFrame | None = None
    groups: pd.DataFrame | None = None
    smallest_model: pd.DataFrame | None = None
    worth: pd.DataFrame | None = None


class Section(NamedTuple):
    """A section of the page.

    Attributes:
        identifier: id of its heading, for links.
        heading: plain text.
        content: HTML.
    """

    identifier: str
    heading: str
    content: str


def report_html(report: Report) -> str:
    """Return the page; it needs no other file and no network."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    sections = _sections(report)
    panels = {
        f"{name}-{index}": panel
        for name, figure in report.figures.items()
        for index, panel in enumerate(split_panels(figure))
    }
    return Template(_asset("report.html")).substitute(
        title=html.escape(report.title),
        summary=html.escape(_summary(report)),
        run=run_html(report.run),
        contents=_links([(section.identifier, section.heading) for section in sections]),
        sections="\n".join(
            f'<section class="{section.identifier}" aria-labelledby="{section.identifier}"><h2 id="{section.identifier}">{html.escape(section.heading)}</h2>\n'
            f"{section.content}</section>"
            for section in sections
        ),
        css=_asset("report.css"),
        plotly=get_plotlyjs(),
        json=script_json(panels),
        playable=f"const playable = {script_json(report.playable)};" if report.playable else "",
        script="\n".join(_asset(name) for name in SCRIPTS),
    )


def script_json(value: Any) -> str:
    """Return JSON that can be embedded in ``<script>``.

    It contains no ``<``: ``</script>`` would end the script, and ``<!--<script>`` would keep it from ending (HTML standard,
    "Restrictions for contents of script elements").
    """
    return json.dumps(value).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (
        resources.files("deep_interest.reporting")
        .joinpath("assets", name)
        .read_text(encoding="utf-8")
        .rstrip()
    )


def _sections(report: Report) -> list[Section]:
    results = by_gauc(report.results)
    table = results_table(results, published=report.published, base=report.base, validation=True)
    names = dict(zip(results["model"], results["name"].astype(str), strict=True))
    return [
        Section("conclusions", "Conclusions", _conclusions(results, report)),
        Section("results", "Results", _results(results, table, report)),
        *_optional_sections(report),
        Section("charts", "Charts", _charts(report.figures)),
        Section("dataset", "Dataset", dataset_html(report.summary)),
        *(
            [Section("changes", "Changes since the last run", changes_html(report.results, *report.earlier))]
            if report.earlier
            else []
        ),
        Section("settings", "Settings and versions", settings_html(report.settings, report.recipes, names)),
    ]


def _optional_sections(report: Report) -> Iterator[Section]:
    """Yield the sections of tables that the dataset has."""
    if report.playable:
        yield Section("playable", "Try DIN", playable_html(report.playable))
    sections: list[tuple[str, str, pd.DataFrame | None, Callable[[pd.DataFrame], str]]] = [
        ("leaderboard", "Leaderboard: every model tuned with the same budget", report.leaderboard, leaderboard_html),
        ("smallest", "Smallest model that is not worse", report.smallest_model, smallest_html),
        ("power", "What this test set can show", report.power, power_html),
        ("groups", "For whom", report.groups, partial(groups_html, base=report.base)),
        ("worth", "Worth of data", report.worth, worth_html),
    ]  # fmt: skip
    for identifier, heading, table, content in sections:
        if table is not None and len(table):
            yield Section(identifier, heading, content(table))


def _links(targets: Sequence[tuple[str, str]]) -> str:
    """Return a list of links to parts of the page, each by its id and its name."""
    links = "".join(
        f'<li><a href="#{html.escape(identifier)}">{html.escape(name)}</a></li>'
        for identifier, name in targets
    )
    return f"<ul>{links}</ul>"


def _summary(report: Report) -> str:
    first = report.results.iloc[0]
    return (
        f"Protocol {report.protocol}; {describe_seeds(report.results)} per trained model. Models and options were selected on "
        f"validation data; the test set was evaluated once. GAUC covers {first['user_coverage']:.1%} of the users: those with both a "
        "positive and a negative sample."
    )


def _list_items(strings: Sequence[str]) -> str:
    return "".join(f"<li>{html.escape(string)}</li>" for string in strings)


def _conclusions(results: pd.DataFrame, report: Report) -> str:
    """Return the verdict, the sentence on the best model, followed by the other sentences."""
    verdict, *others = sentences(results, protocol=report.protocol, base=report.base)
    return f'<p class="verdict">{html.escape(verdict)}</p><ul class="conclusions">{_list_items(others)}</ul>'


def _results(results: pd.DataFrame, table: ResultsTable, report: Report) -> str:
    """Return the results table, its sources and its notes; models that are significantly better than the base are shaded."""
    better = (
        (results["p_holm"] < SIGNIFICANCE_LEVEL) & (results["difference"] > 0) & (results["model"] != ORACLE)
    )
    rows = [
        HtmlRow(cells, "better" if shaded else "") for cells, shaded in zip(table.rows, better, strict=True)
    ]
    is_model = (results["model"] != ORACLE).tolist()
    difference = [heading for heading in table.headings if heading.startswith("Difference")][:1]
    sources = "<br>".join(
        f"{str(number).translate(SUPERSCRIPTS)} {html.escape(source)}"
        for number, source in enumerate(table.sources, start=1)
    )
    notes = [note.replace("**", "").replace("`", "") for note in table.notes]
    return (
        sortable_table(
            table.headings, [row for row, kept in zip(rows, is_model, strict=True) if kept], identifier="results-table",
            caption=_caption(results, report), sorted_by="GAUC", essential=["Model", "GAUC", *difference],
            lower_is_better=["LogLoss", "Training (s)"],
            references=[row for row, kept in zip(rows, is_model, strict=True) if not kept],
        )
        + f'<p class="soft">{sources}</p><details><summary>How to read the table</summary><ul>{_list_items(notes)}</ul></details>'
    )  # fmt: skip


def _caption(results: pd.DataFrame, report: Report) -> str:
    caption = "Metrics on the test set, highest GAUC first. Press a heading to sort by its column."
    base = name_of(results, report.base)
    if base is None or results["p_holm"].isna().all():
        return caption
    return f"{caption} * significant at the 5% level after Holm's correction. Shaded models are significantly better than {base}."


def _charts(figures: Mapping[str, dict[str, Any]]) -> str:
    titles = [(f"chart-{name}", _title(figure)) for name, figure in figures.items()]
    drawn = "\n".join(_figure(name, figure) for name, figure in figures.items())
    return f'<nav class="contents charts" aria-label="Charts">{_links(titles)}</nav>\n{drawn}'


def _title(figure: dict[str, Any]) -> str:
    return original_text(figure["layout"]["title"]["text"])


def _figure(name: str, figure: dict[str, Any]) -> str:
    panels = split_panels(figure)
    min_width = {1: "100%", 2: "420px"}.get(len(panels), "300px")
    title = html.escape(_title(figure))
    elements = "".join(
        f'<div>{_panel_heading(panel)}<div id="{html.escape(name)}-{index}" role="img" aria-label="{_alternative(title, panel)}"></div></div>'
        for index, panel in enumerate(panels)
    )
    note = html.escape(figure["layout"]["meta"]["note"])
    return (
        f'<figure id="chart-{html.escape(name)}"><h3>{title}</h3><div class="panels" style="--min-width: {min_width}">{elements}</div>'
        f"<figcaption>{note}</figcaption></figure>"
    )


def _alternative(title: str, panel: dict[str, Any]) -> str:
    """Return what screen readers read in place of a panel; the note below the chart says what it shows."""
    heading = html.escape(panel["layout"]["meta"]["title"])
    return f"{title}, {heading}" if heading else title


def _panel_heading(panel: dict[str, Any]) -> str:
    title = panel["layout"]["meta"]["title"]
    return f"<h4>{html.escape(title)}</h4>" if title else ""

"""``report.html``: everything about one dataset's results on one self-contained page."""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

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
from deep_interest.reporting.changes import changes_html
from deep_interest.reporting.dataset_section import dataset_html
from deep_interest.reporting.groups_section import groups_html
from deep_interest.reporting.html_page import Section, charts_html, html_page, list_items
from deep_interest.reporting.html_tables import HtmlRow, sortable_table
from deep_interest.reporting.leaderboard import leaderboard_html
from deep_interest.reporting.playable_din import playable_html
from deep_interest.reporting.position_section import position_html
from deep_interest.reporting.power_section import power_html
from deep_interest.reporting.run_record import run_html
from deep_interest.reporting.sentences import sentences
from deep_interest.reporting.settings_section import settings_html
from deep_interest.reporting.smallest_section import smallest_html
from deep_interest.reporting.worth_section import worth_html
from deep_interest.training.parameters import Recipe


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
        position: output of `evaluation.position_table.position_table`; None or no rows if no model has learned the effect of slots.
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
    position: pd.DataFrame | None = None


def report_html(report: Report) -> str:
    """Return the page; it needs no other file and no network."""
    return html_page(
        title=report.title, summary=_summary(report), sections=_sections(report), figures=report.figures, run=run_html(report.run),
        playable=report.playable,
    )  # fmt: skip


def _sections(report: Report) -> list[Section]:
    results = by_gauc(report.results)
    table = results_table(results, published=report.published, base=report.base, validation=True)
    names = dict(zip(results["model"], results["name"].astype(str), strict=True))
    return [
        Section("conclusions", "Conclusions", _conclusions(results, report)),
        Section("results", "Results", _results(results, table, report)),
        *_optional_sections(report),
        Section("charts", "Charts", charts_html(report.figures)),
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
        ("position", "Position", report.position, position_html),
        ("worth", "Worth of data", report.worth, worth_html),
    ]  # fmt: skip
    for identifier, heading, table, content in sections:
        if table is not None and len(table):
            yield Section(identifier, heading, content(table))


def _summary(report: Report) -> str:
    first = report.results.iloc[0]
    return (
        f"Protocol {report.protocol}; {describe_seeds(report.results)} per trained model. Models and options were selected on "
        f"validation data; the test set was evaluated once. GAUC covers {first['user_coverage']:.1%} of the users: those with both a "
        "positive and a negative sample."
    )


def _conclusions(results: pd.DataFrame, report: Report) -> str:
    """Return the verdict, the sentence on the best model, followed by the other sentences."""
    verdict, *others = sentences(results, protocol=report.protocol, base=report.base)
    return f'<p class="verdict">{html.escape(verdict)}</p><ul class="conclusions">{list_items(others)}</ul>'


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
        + f'<p class="soft">{sources}</p><details><summary>How to read the table</summary><ul>{list_items(notes)}</ul></details>'
    )  # fmt: skip


def _caption(results: pd.DataFrame, report: Report) -> str:
    caption = "Metrics on the test set, highest GAUC first. Press a heading to sort by its column."
    base = name_of(results, report.base)
    if base is None or results["p_holm"].isna().all():
        return caption
    return f"{caption} * significant at the 5% level after Holm's correction. Shaded models are significantly better than {base}."

"""``report.html``: everything about one dataset's results on one self-contained page."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from deep_interest.reporting.groups_section import groups_html
from deep_interest.reporting.html_page import Section, charts_html, html_page, list_items
from deep_interest.reporting.html_tables import HtmlRow, html_table, sortable_table
from deep_interest.reporting.leaderboard import leaderboard_html
from deep_interest.reporting.playable_din import playable_html
from deep_interest.reporting.power_section import power_html
from deep_interest.reporting.run_record import run_html
from deep_interest.reporting.sentences import sentences
from deep_interest.reporting.settings_section import settings_html
from deep_interest.training.parameters import Recipe

UNKNOWN_PREFIX = "unknown_"  # of the columns of `samples_summary` that are shares, not counts


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
    playable = [Section("playable", "Try DIN", playable_html(report.playable))] if report.playable else []
    leaderboard = []
    if report.leaderboard is not None:
        content = leaderboard_html(report.leaderboard)
        leaderboard = [Section("leaderboard", "Leaderboard: every model tuned with the same budget", content)]
    power = []
    if report.power is not None and len(report.power):
        power = [Section("power", "What this test set can show", power_html(report.power))]
    groups = []
    if report.groups is not None and len(report.groups):
        groups = [Section("groups", "For whom", groups_html(report.groups, base=report.base))]
    if report.earlier:
        changes = [
            Section("changes", "Changes since the last run", changes_html(report.results, *report.earlier))
        ]
    else:
        changes = []
    return [
        Section("conclusions", "Conclusions", _conclusions(results, report)),
        Section("results", "Results", _results(results, table, report)),
        *playable,
        *leaderboard,
        *power,
        *groups,
        Section("charts", "Charts", charts_html(report.figures)),
        Section("dataset", "Dataset", _data(report.summary)),
        *changes,
        Section("settings", "Settings and versions", settings_html(report.settings, report.recipes, names)),
    ]


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


def _data(summary: pd.DataFrame) -> str:
    """Return the table of counts, the dropped rows, and the table of the shares of unknown values."""
    reasons = (
        summary["reason"].fillna("")
        if "reason" in summary
        else pd.Series("", index=summary.index, dtype=object)
    )
    splits = summary[reasons == ""].drop(columns="reason", errors="ignore")
    is_share = splits.columns.str.startswith(UNKNOWN_PREFIX)
    parts = [
        _summary_table(splits.loc[:, ~is_share], caption="Samples of each split"),
        '<p class="soft">Users and items of a split are those of its samples; those of "all" are those of the behaviours.</p>',
    ]
    if dropped := [
        [reason, _plain(int(count))]
        for reason, count in zip(reasons, summary.iloc[:, 1], strict=True)
        if reason
    ]:
        parts.append(html_table(["Reason", "Rows"], dropped, caption="Rows that are left out"))
    if is_share.any():
        shares = splits.loc[:, is_share].dropna(how="all")
        percent = shares.map(lambda share: "" if pd.isna(share) else f"{share:.2%}")
        percent.columns = percent.columns.str.removeprefix(UNKNOWN_PREFIX)
        percent.insert(0, splits.columns[0], splits.loc[shares.index, splits.columns[0]])
        parts += [
            "<h3>Unknown values</h3>",
            _summary_table(percent, caption="Share of unknown values in each split"),
            '<p class="soft">Share of the samples whose user, item or field value is missing or not among the training samples.</p>',
        ]
    return "\n".join(parts)


def _summary_table(table: pd.DataFrame, *, caption: str) -> str:
    """Return a table with the rows of ``table`` as columns: splits are few, columns may be many."""
    first, *others = table.columns
    rows = [
        [str(column).replace("_", " ").replace("behaviors", "behaviours")]
        + ["" if pd.isna(value) else _plain(value) for value in table[column].tolist()]
        for column in others
    ]
    return html_table([str(first), *map(str, table[first])], rows, caption=caption)


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)

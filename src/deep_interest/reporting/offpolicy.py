"""``report.html`` of an off-policy evaluation: verdict, table, plots and what they rest on, on one self-contained page."""

import html
from collections.abc import Mapping
from typing import Any

import pandas as pd

from deep_interest.offpolicy.page import HEADINGS, notes_of, notes_on_columns, table_of, verdict
from deep_interest.reporting.html_page import Section, charts_html, html_page, list_items
from deep_interest.reporting.html_tables import html_table


def evaluation_html(
    results: pd.DataFrame, checks: Mapping[str, Any], left_out: Mapping[str, int], *, title: str, logged: str, evaluated: str,
    figures: Mapping[str, dict[str, Any]],
) -> str:  # fmt: skip
    """Return the page; it needs no other file and no network.

    Args:
        results: `Evaluation.results`, or the same read back from CSV.
        checks: `Evaluation.checks`, with ``target_reward``.
        left_out: number of skipped rows by reason.
        title: heading of the page.
        logged, evaluated: names of the versions.
        figures: output of `figures.plotly.plotly_figure` by name, in the order of the page.
    """
    sentence = html.escape(verdict(results, checks, logged=logged, evaluated=evaluated))
    rests = list_items(notes_of(results, checks, left_out, logged=logged, evaluated=evaluated))
    table = html_table(
        HEADINGS, table_of(results, checks), caption=f"Mean reward of an impression under {evaluated}."
    )
    notes = f"<details><summary>How to read the table</summary><ul>{list_items(notes_on_columns())}</ul></details>"
    return html_page(
        title=title,
        summary=f"What {evaluated} would have earned on the log of {logged}: {checks['rows']:,} impressions of {checks['users']:,} users or requests.",
        sections=[
            Section("conclusions", "Verdict", f'<p class="verdict">{sentence}</p>'),
            Section("results", "Estimates", table + notes),
            Section("charts", "Charts", charts_html(figures)),
            Section("dataset", "What it rests on", f"<ul>{rests}</ul>"),
        ],
        figures=figures,
    )

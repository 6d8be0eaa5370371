"""``report.html`` of an A/B test: verdicts, table, plots and what they rest on, on one self-contained page."""

import html
from collections.abc import Mapping
from typing import Any

from deep_interest.abtest.page import HEADINGS, notes_on_columns, sentences_of, table_of
from deep_interest.abtest.readout import Readout
from deep_interest.abtest.sentences import notes_of, warnings_of
from deep_interest.reporting.html_page import Section, charts_html, html_page, list_items
from deep_interest.reporting.html_tables import html_table


def abtest_html(
    readout: Readout, *, title: str, expected_lift: float, left_out: Mapping[str, int], figures: Mapping[str, dict[str, Any]]
) -> str:  # fmt: skip
    """Return the page; it needs no other file and no network.

    Args:
        readout: the read-out.
        title: heading of the page.
        expected_lift: relative lift for which the days are predicted.
        left_out: number of skipped rows by reason.
        figures: output of `figures.plotly.plotly_figure` by name, in the order of the page.
    """
    checks = readout.checks
    warnings = "".join(f'<p class="verdict">{html.escape(sentence)}</p>' for sentence in warnings_of(checks))
    verdicts = list_items(sentences_of(readout, expected_lift=expected_lift))
    table = html_table(
        HEADINGS, table_of(readout.results), caption="Lifts over the control. * significant at the 5% level after Holm's correction."
    )  # fmt: skip
    notes = f"<details><summary>How to read the table</summary><ul>{list_items(notes_on_columns(expected_lift))}</ul></details>"
    return html_page(
        title=title,
        summary=(
            f"A/B test of {sum(checks['users'].values()):,} users over {checks['days']} days, from {checks['first_day']} to "
            f"{checks['last_day']}; the control is {checks['control']}."
        ),
        sections=[
            Section("conclusions", "Verdict", f'{warnings}<ul class="conclusions">{verdicts}</ul>'),
            Section("results", "Results", table + notes),
            Section("charts", "Charts", charts_html(figures)),
            Section("dataset", "What it rests on", f"<ul>{list_items(notes_of(checks, left_out))}</ul>"),
        ],
        figures=figures,
    )

"""The read-out of an A/B test as a Markdown page."""

from collections.abc import Mapping

import pandas as pd

from deep_interest.abtest.metrics import METRICS
from deep_interest.abtest.readout import Readout
from deep_interest.abtest.sentences import fading, notes_of, percent, verdict, warnings_of
from deep_interest.evaluation.page import EMPTY, markdown_table

HEADINGS = (
    "Metric", "Arm", "Value", "Control", "Lift [95% interval]", "p (Holm)", "Always-valid interval", "Variance removed by CUPED",
    "Finds now", "More days for the expected lift",
)  # fmt: skip


def sentences_of(readout: Readout, *, expected_lift: float) -> list[str]:
    """Return the verdicts on all metrics and arms, followed by what fades."""
    rows = readout.results.to_dict("records")
    found = [verdict(row, expected_lift=expected_lift) for row in rows]
    return found + [sentence for row in rows if (sentence := fading(row))]


def table_of(results: pd.DataFrame) -> list[list[str]]:
    """Return the cells of the table, a list for each metric and arm, under `HEADINGS`."""
    return [_cells(row) for row in results.to_dict("records")]


def notes_on_columns(expected_lift: float) -> list[str]:
    """Return how to read the table."""
    return [
        "Intervals are over users: users come back, so impressions are not independent. They are those of the relative lift, by the delta "
        "method on its logarithm, with CUPED if there is a pre-period.",
        "The 95% interval and p are valid on one day that was planned before the test. The always-valid interval is valid on every day, "
        "however often and whenever the result is read.",
        "p is corrected by Holm over the arms of a metric; always-valid intervals have the level 5% divided by the number of arms that are "
        "compared. Choose the metric that decides before the test.",
        "Variance removed by CUPED is the share of the variance of the lift that the pre-period explains.",
        "Finds now is the smallest lift that is found with a probability of 80% today. More days is how many more an expected lift of "
        f"{percent(expected_lift)} takes with the fixed-horizon interval, if users go on to arrive and to come back as they did so far.",
    ]


def readout_markdown(
    readout: Readout, *, title: str, expected_lift: float, left_out: Mapping[str, int]
) -> str:
    """Return the page ``results.md``; the same arguments give the same string.

    Args:
        readout: the read-out.
        title: heading of the page.
        expected_lift: relative lift for which the days are predicted.
        left_out: number of skipped rows by reason.
    """
    warnings = [f"- **{sentence}**" for sentence in warnings_of(readout.checks)]
    verdicts = [f"- {sentence}" for sentence in sentences_of(readout, expected_lift=expected_lift)]
    parts = [
        f"# {' '.join(title.splitlines())}",
        "\n".join([*warnings, *verdicts]),
        markdown_table(list(HEADINGS), table_of(readout.results)),
        "## What it rests on\n\n" + "\n".join(f"- {note}" for note in notes_of(readout.checks, left_out)),
        "## How to read the table\n\n" + "\n".join(f"- {note}" for note in notes_on_columns(expected_lift)),
    ]
    return "\n\n".join(parts).replace("<", "&lt;") + "\n"


def _cells(row: Mapping[str, object]) -> list[str]:
    return [
        METRICS[str(row["metric"])].name,
        str(row["arm"]),
        _number(row["value"]),
        _number(row["control_value"]),
        f"{_percent(row['lift'])} {_interval(row, '')}{' *' if _below(row['p_holm']) else ''}",
        EMPTY if pd.isna(row["p_holm"]) else f"{row['p_holm']:.2g}",
        _interval(row, "always_"),
        EMPTY if pd.isna(row["variance_removed"]) else f"{row['variance_removed']:.0%}",
        _percent(row["detectable_lift"]),
        _days(row["days_expected"]),
    ]


def _number(value: object) -> str:
    return EMPTY if pd.isna(value) else f"{value:.4g}"


def _percent(value: object) -> str:
    return EMPTY if pd.isna(value) else percent(float(str(value)))


def _interval(row: Mapping[str, object], prefix: str) -> str:
    low, high = row[f"{prefix}low"], row[f"{prefix}high"]
    return EMPTY if pd.isna(low) else f"[{_percent(low)}, {_percent(high)}]"


def _below(p_value: object) -> bool:
    return not pd.isna(p_value) and float(str(p_value)) < 0.05


def _days(days: object) -> str:
    if pd.isna(days):
        return EMPTY
    return f"{days:.0f}" if float(str(days)) < float("inf") else "too many"

"""An off-policy evaluation as sentences, table and Markdown page."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from deep_interest.evaluation.page import EMPTY, markdown_table
from deep_interest.offpolicy.evaluation import ESTIMATORS

HEADINGS = ("Estimator", "Mean reward [95% interval]", "Difference to the log [95% interval]", "Lift")
_PREFERRED = ("dr", "snips")  # estimator of the verdict, the first one that there is


def preferred(results: pd.DataFrame) -> dict[str, Any]:
    """Return the row of the estimator that the verdict uses."""
    rows = {row["estimator"]: row for row in results.to_dict("records")}
    return next(rows[key] for key in _PREFERRED if key in rows)


def verdict(results: pd.DataFrame, checks: Mapping[str, Any], *, logged: str, evaluated: str) -> str:
    """Return the verdict in a sentence, or why there is none."""
    if checks["refusals"]:
        return (
            f"This log cannot say what {evaluated} would have earned: {'; '.join(checks['refusals'])}. Serve with more exploration and log the "
            "probabilities, or run an A/B test."
        )
    row = preferred(results)
    low, high = row["difference_low"], row["difference_high"]
    name = ESTIMATORS[row["estimator"]]
    numbers = (
        f"{row['value']:.4g} per impression [{row['low']:.4g}, {row['high']:.4g}] against {row['logged']:.4g} ({name}), a difference of "
        f"{row['difference']:+.3g} [{low:+.3g}, {high:+.3g}]"
    )
    if low > 0:
        return f"{evaluated} would have earned more than {logged}: {numbers}."
    if high < 0:
        return f"{evaluated} would have earned less than {logged}: {numbers}."
    return f"The log shows no difference between {evaluated} and {logged}: {numbers}."


def table_of(results: pd.DataFrame, checks: Mapping[str, Any]) -> list[list[str]]:
    """Return the cells of the table under `HEADINGS`; those of refused estimates say so."""
    note = " (refused)" if checks["refusals"] else ""
    rows = []
    for row in results.to_dict("records"):
        name = ESTIMATORS[row["estimator"]]
        if not pd.isna(row["threshold"]) and row["threshold"] != float("inf"):
            name += f" (τ = {row['threshold']:.3g})"
        rows.append(
            [
                name + note,
                f"{row['value']:.4g} [{row['low']:.4g}, {row['high']:.4g}]",
                f"{row['difference']:+.3g} [{row['difference_low']:+.3g}, {row['difference_high']:+.3g}]",
                EMPTY if pd.isna(row["lift"]) else f"{row['lift']:+.1%}",
            ]
        )
    return rows


def notes_of(
    results: pd.DataFrame,
    checks: Mapping[str, Any],
    left_out: Mapping[str, int],
    *,
    logged: str,
    evaluated: str,
) -> list[str]:
    """Return what the estimates rest on."""
    first = results.iloc[0]
    notes = [
        f"{checks['rows']:,} impressions of {checks['users']:,} users or requests, {checks['rewards']:,} with a reward; {logged} earned "
        f"{first['logged']:.4g} [{first['logged_low']:.4g}, {first['logged_high']:.4g}] per impression.",
        f"Mean weight {checks['mean_weight']:.3f} ± {checks['mean_weight_error']:.3f} (1 if {logged} shows all that {evaluated} shows and the "
        f"probabilities are right), largest weight {checks['largest_weight']:.3g}.",
        f"Effective sample size: {checks['effective_rows']:,.0f} impressions, {checks['effective_rewards']:,.0f} rewards, "
        f"{checks['expected_rewards']:,.0f} if rewards did not depend on the weights; the largest share of a user is {checks['largest_share']:.1%}.",
    ]
    if checks["unseen"] is not None:
        notes.append(
            f"{checks['unseen']:.1%} of what {evaluated} would show is never in that slot in the log."
        )
    if checks.get("target_reward") is not None:
        notes.append(f"In its own log, {evaluated} earned {checks['target_reward']:.4g} per impression.")
    if checks["slate"] != "item_position":
        notes.append(f"Weights of slots: {checks['slate']}.")
    return notes + [f"Left out: {rows:,} {reason}." for reason, rows in left_out.items()]


def notes_on_columns() -> list[str]:
    """Return how to read the table."""
    return [
        "Weight: probability of what was shown under the evaluated version, divided by that under the version that wrote the log. IPS is the mean of "
        "weight × reward, SNIPS is divided by the mean weight. Doubly robust adds a model of the reward and corrects it with the weighted residuals; "
        "switch-DR trusts the model alone where the weight is above τ.",
        "Intervals are over users: a user's impressions depend on each other. The difference to the log is paired.",
        "With several slots, each slot has its own weight: that is right if a click depends on the item and its slot, and not on the items around it "
        "(`slate: cascade` and `slate: whole` assume less, and need more data).",
        "Estimates are refused if the mean weight is not 1, if more than 5% of what would be shown is never in that slot in the log, if the log is worth fewer than 50 rewards, or if one user makes more than 10% of the "
        "estimate; on simulated logs their intervals then miss the truth too often.",
    ]


def evaluation_markdown(
    results: pd.DataFrame, checks: Mapping[str, Any], left_out: Mapping[str, int], *, title: str, logged: str, evaluated: str
) -> str:  # fmt: skip
    """Return the page ``results.md``; the same arguments give the same string."""
    rests = notes_of(results, checks, left_out, logged=logged, evaluated=evaluated)
    parts = [
        f"# {' '.join(title.splitlines())}",
        f"**{verdict(results, checks, logged=logged, evaluated=evaluated)}**",
        markdown_table(list(HEADINGS), table_of(results, checks)),
        "## What it rests on\n\n" + "\n".join(f"- {note}" for note in rests),
        "## How to read the table\n\n" + "\n".join(f"- {note}" for note in notes_on_columns()),
    ]
    return "\n\n".join(parts).replace("<", "&lt;") + "\n"

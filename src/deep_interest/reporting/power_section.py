"""The section of the report on what the test set can show."""

import html
import math

import pandas as pd

from deep_interest.evaluation.power import DIFFERENCES
from deep_interest.evaluation.power_table import LEVEL, POWER
from deep_interest.reporting.html_tables import html_table


def power_html(power: pd.DataFrame) -> str:
    """Return the smallest difference in GAUC that the test set can show for each model, and how many users smaller ones need.

    Args:
        power: output of `evaluation.power_table.power_table`, with at least one row.
    """
    first = power.iloc[0]
    base, users, days = str(first["base"]), int(first["users"]), first["days"]
    size = f"{users:,} users with both classes" + (
        "" if pd.isna(days) else f" on {int(days)} day{'s' if days > 1 else ''}"
    )
    middle = power["smallest_difference"].median()
    sentence = (
        f"The test set has {size}. If a model's GAUC truly differs from that of {base} by the smallest difference of its row, the interval "
        f"excludes 0 in {POWER:.0%} of such tables (level {LEVEL:.0%}, before Holm's correction); the median over the models is {middle:.4f}. The "
        "other columns say what finding 0.001, 0.002 and 0.005 would need, with as many seeds as here."
    )
    headings = ["Model", "Smallest difference", *(f"For {difference}" for difference in DIFFERENCES)]
    rows = [
        [
            str(row["name"]) + ("" if row["seeds"] else " (users only)"),
            f"{row['smallest_difference']:.4f}",
            *(_needed(row[f"factor_{difference}"], users, days) for difference in DIFFERENCES),
        ]
        for _, row in power.sort_values("smallest_difference", kind="stable").iterrows()
    ]
    table = html_table(headings, rows, caption=f"What this test set can show in comparison with {base}")
    notes = "“More seeds”: the variation between fits is too large; more users alone do not help."
    if not pd.isna(days):
        notes += " Days are counted as if each had as many new users as a day of this test set."
    if not power["seeds"].all():
        notes += " “Users only”: one of the two models has one seed, which cannot show how much another fit would differ."
    return f'<p>{html.escape(sentence)}</p>{table}<p class="soft">{html.escape(notes)}</p>'


def _needed(factor: float, users: int, days: float) -> str:
    """Return in words how many users a difference needs."""
    if math.isinf(factor):
        return "more seeds"
    if factor <= 1:
        return "this test set"
    more = "" if pd.isna(days) else f", {math.ceil(factor * days):,} days"
    times = f"{factor:,.0f}" if factor >= 100 else f"{factor:.3g}"
    return f"{times} × the users ({math.ceil(factor * users):,}{more})"

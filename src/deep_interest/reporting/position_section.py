"""The section of the report on position bias."""

import html

import pandas as pd

from deep_interest.reporting.html_tables import html_table

_UNIT = {
    "examination": "relative to the reference slot",
    "log_odds": "as the difference in log-odds to the reference slot",
}


def position_html(position: pd.DataFrame) -> str:
    """Return a table of the effect of each slot for each model that has learned it.

    Args:
        position: output of `evaluation.position_table.position_table`, with at least one row.
    """
    parts = [
        "<p>Items in the first slots are clicked more often because they are seen more often, and because the ranker that filled the slots put "
        "good items there. The raw CTR by slot confuses both; the other columns are the effect of the slot itself. Training has learned it, and "
        "scoring does not use it: items are scored as if all were shown in the reference slot.</p>"
    ]
    for _, rows in position.groupby("model", sort=False):
        parts.append(_table(rows))
    parts.append(
        '<p class="soft">“Raw” and “on the test set” have 95 % intervals over users, “learned” over seeds. “On the test set” estimates the effect again '
        "from test samples, given the model’s predictions: where it differs from the learned effect, the model has not learned it well. Both "
        "are the effect of the slot only as far as the model knows what the old ranker knew about the items.</p>"
    )
    return "\n".join(parts)


def _table(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    headings = ["Slot", "Samples", "CTR", "Raw", "Learned", "On the test set"]
    lines = [
        [
            str(row["slot"]), f"{row['samples']:,}", _number(row["ctr"], 4),
            *(_interval(row, column) for column in ("raw", "learned", "estimate")),
        ]
        for _, row in rows.iterrows()
    ]  # fmt: skip
    effect = "Examination" if first["form"] == "examination" else "Effect"
    caption = f"{first['name']}: {effect.lower()} by slot, {_UNIT[str(first['form'])]}"
    return html_table(headings, lines, caption=html.escape(caption))


def _interval(row: pd.Series, column: str) -> str:
    low, high = row[f"{column}_low"], row[f"{column}_high"]
    if pd.isna(low) or low == high:
        return _number(row[column], 3)
    return f"{row[column]:.3f} [{low:.3f}, {high:.3f}]"


def _number(value: float, digits: int) -> str:
    return "–" if pd.isna(value) else f"{value:.{digits}f}"

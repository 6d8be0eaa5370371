"""The section of the report on for whom the models work."""

import html

import pandas as pd

from deep_interest.reporting.html_tables import html_table


def groups_html(groups: pd.DataFrame, *, base: str) -> str:
    """Return a table per grouping: GAUC of one model, and what the others add in each group.

    Args:
        groups: output of `evaluation.group_table.group_table`, with at least one row.
        base: key of the model that the others are compared with.
    """
    parts = [
        "<p>What a model gains on average may be a loss for some. Each row is a group of test samples, with 95 % intervals over users and seeds; "
        "a dash marks a group with fewer than 10 users with both classes.</p>"
    ]
    for grouping, rows in groups.groupby("grouping", sort=False):
        parts.append(_table(str(grouping), rows, base))
    return "\n".join(parts)


def _table(grouping: str, rows: pd.DataFrame, base: str) -> str:
    models = rows.drop_duplicates("model").set_index("model")["name"].astype(str)
    others = [model for model in models.index if model != base]
    shown = [base] if base in models.index else []
    headings = ["Group", "Samples", "Users", *(f"{models[model]}, GAUC" for model in shown)]
    headings += [f"{models[model]}, difference" if shown else f"{models[model]}, GAUC" for model in others]
    lines = []
    for group, of_group in rows.groupby("group", sort=False):
        by_model = of_group.set_index("model")
        first = by_model.iloc[0]
        line = [str(group), f"{first['samples']:,}", f"{first['users']:,}"]
        line += [_interval(by_model.loc[model], "gauc", "") for model in shown]
        line += [
            _interval(by_model.loc[model], *(("difference", "+") if shown else ("gauc", "")))
            for model in others
        ]
        lines.append(line)
    table = html_table(headings, lines, caption=f"By {grouping}")
    harmed = _harmed(rows, base)
    return table + (f'<p class="soft">{html.escape(harmed)}</p>' if harmed else "")


def _interval(row: pd.Series, column: str, sign: str) -> str:
    if pd.isna(row[column]):
        return "–"
    low, high = row[f"{column}_low"], row[f"{column}_high"]
    return f"{row[column]:{sign}.4f} [{low:{sign}.4f}, {high:{sign}.4f}]"


def _harmed(rows: pd.DataFrame, base: str) -> str:
    """Return a sentence on the groups in which a model is worse by its interval."""
    worse = rows[rows["difference_high"] < 0]
    if worse.empty:
        return ""
    name = rows.loc[rows["model"] == base, "name"].iloc[0]
    sentences = [f"{row['name']} in the group {row['group']}" for _, row in worse.iterrows()]
    compared = int(rows["difference"].notna().sum())
    return f"Worse than {name}, each by an interval of its own, not corrected for {compared} comparisons: {'; '.join(sentences)}."

"""The section of the report on the samples of the dataset."""

import pandas as pd

from deep_interest.reporting.html_tables import html_table

UNKNOWN_PREFIX = "unknown_"  # of the columns of `samples_summary` that are shares, not counts


def dataset_html(summary: pd.DataFrame) -> str:
    """Return the table of counts, the dropped rows, and the table of the shares of unknown values.

    Args:
        summary: table ``samples_summary`` of the dataset.
    """
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

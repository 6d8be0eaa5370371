"""The chart of the effect of slots on clicks."""

import pandas as pd

from deep_interest.figures.chart import Chart, Line, Panel

MOST_MODELS = 4  # each has a panel


def position_chart(table: pd.DataFrame, *, title: str) -> Chart:
    """Draw a panel per model: learned effect, effect on the test set and raw CTR by slot.

    Args:
        table: output of `evaluation.position_table.position_table`.
        title: heading of the chart.
    """
    groups = [rows for _, rows in table.groupby("model", sort=False)]
    return Chart(
        title, [_panel(rows) for rows in groups[:MOST_MODELS]],
        note="Relative to the reference slot, for which items are scored. Raw: CTR on the test set, which relevance confounds. Bands are 95 % "
        "intervals, over seeds for the learned effect, over users for the others.",
    )  # fmt: skip


def _panel(rows: pd.DataFrame) -> Panel:
    first = rows.iloc[0]
    lines = [
        _line(rows, "raw", "raw CTR", -1),
        _line(rows, "estimate", "on the test set", 0),
        _line(rows, "learned", "learned", 1),
    ]
    label = "examination" if first["form"] == "examination" else "difference in log-odds"
    return Panel(
        lines, title=str(first["name"]), x_label="slot", y_label=label, x_ticks=rows["slot"].astype(str).tolist()
    )  # fmt: skip


def _line(rows: pd.DataFrame, column: str, name: str, color: int) -> Line:
    rows = rows.reset_index(drop=True)
    rows = rows[rows[column].notna()]
    has_band = rows[f"{column}_low"].notna().all()
    return Line(
        rows.index.tolist(), rows[column].tolist(), name, color, markers=True, dashed=color == -1,
        lower=rows[f"{column}_low"].tolist() if has_band else None,
        upper=rows[f"{column}_high"].tolist() if has_band else None,
    )  # fmt: skip

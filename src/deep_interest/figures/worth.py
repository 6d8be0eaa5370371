"""The chart of a model's GAUC by amount of data, history length and embedding width."""

import pandas as pd

from deep_interest.evaluation.worth_table import format_value
from deep_interest.figures.chart import Chart, Line, Panel

_LABELS = {
    "days": "training days",
    "users": "share of the training users",
    "max_len": "history length",
    "embedding_dim": "embedding width",
}


def worth_chart(table: pd.DataFrame, *, title: str) -> Chart:
    """Draw a panel per axis: GAUC on the test set by value.

    Args:
        table: output of `evaluation.worth_table.worth_table`.
        title: heading of the chart.
    """
    panels = [_panel(str(axis), rows) for axis, rows in table.groupby("axis", sort=False)]
    return Chart(
        title, panels,
        note="GAUC on the test set, means over seeds. The band is the 95 % interval, over users and seeds, of the difference to the largest "
        "value, so that it has no width there: where it ends below the last point, the largest value is better by an interval of its own. Values "
        "are equally spaced.",
    )  # fmt: skip


def _panel(axis: str, rows: pd.DataFrame) -> Panel:
    largest = rows["gauc"].iloc[-1]
    low, high = ((largest + rows[f"difference_{end}"].fillna(0.0)).tolist() for end in ("low", "high"))
    has_band = rows["difference_low"].notna().any()
    line = Line(
        list(range(len(rows))), rows["gauc"].tolist(), "GAUC", markers=True,
        lower=low if has_band else None, upper=high if has_band else None,
    )  # fmt: skip
    ticks = [format_value(axis, value) for value in rows["value"]]
    label = _LABELS[axis]
    return Panel([line], title=f"By {label}", x_label=label, y_label="GAUC", x_ticks=ticks)

"""Learning curves by epoch."""

from collections.abc import Mapping

import pandas as pd

from deep_interest.figures.chart import Chart, Line, Panel

LEARNING_CURVES = {
    "train_loss": "Training loss",
    "test_loss": "Test loss",
    "test_auc": "Test AUC",
    "test_gauc": "Test GAUC",
}
AUXILIARY_CURVES = {
    "train_loss": "Target loss, training",
    "validation_loss": "Target loss, validation",
    "auxiliary_loss": "Auxiliary loss times α, training",
}


def curves_chart(
    curves: Mapping[str, pd.DataFrame],
    *,
    panels: Mapping[str, str] = LEARNING_CURVES,
    title: str = "Learning curves by epoch",
    note: str = "",
) -> Chart:
    """Draw one panel per metric and one line per model: the mean over seeds, in a band of ± one standard deviation.

    Args:
        curves: learning curves by model name; columns ``seed``, ``epoch`` and metrics, one row per seed and evaluation.
        panels: panel titles by metric; a metric that no model has is omitted. `LEARNING_CURVES` are those of DIN Fig. 4,
            `AUXILIARY_CURVES` those of DIEN Fig. 2.
        title: heading of the chart.
        note: how to read the chart.
    """
    drawn = [
        Panel(
            [
                _line(name, table, metric, color)
                for color, (name, table) in enumerate(curves.items())
                if metric in table
            ],
            title=panel_title,
            x_label="epoch",
        )
        for metric, panel_title in panels.items()
        if any(metric in table for table in curves.values())
    ]
    return Chart(title, drawn, columns=4, note=note)


def _line(name: str, table: pd.DataFrame, metric: str, color: int) -> Line:
    by_epoch = table.groupby("epoch")[metric].agg(["mean", "std"])
    deviation = by_epoch["std"].fillna(0)
    return Line(
        by_epoch.index.tolist(), by_epoch["mean"].tolist(), name, color=color, markers=len(by_epoch) < 2,
        lower=(by_epoch["mean"] - deviation).tolist(), upper=(by_epoch["mean"] + deviation).tolist(),
    )  # fmt: skip

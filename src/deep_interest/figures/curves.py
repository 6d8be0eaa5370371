"""Learning curves by epoch."""

from collections.abc import Mapping

import pandas as pd

from deep_interest.figures.chart import Chart, Line, Panel

PANELS = {
    "train_loss": "Train loss",
    "test_loss": "Test loss",
    "test_auc": "Test AUC",
    "test_gauc": "Test GAUC",
}
AUXILIARY = {
    "train_loss": "Target loss, training",
    "validation_loss": "Target loss, validation",
    "auxiliary_loss": "Auxiliary loss (α applied), training",
}


def curves_chart(
    curves: Mapping[str, pd.DataFrame],
    *,
    panels: Mapping[str, str] = PANELS,
    title: str = "Learning curves by epoch",
    note: str = "",
) -> Chart:
    """One panel for each figure, one line for each row: the mean over its seeds, a band of one deviation around it.

    Args:
        curves: by the row's name; ``seed``, ``epoch`` and some of the panels' columns, a row for each seed and evaluation.
        panels: heading by column; a column that no row has is left out. `PANELS` is DIN Fig. 4, `AUXILIARY` DIEN Fig. 2.
        title: heading.
        note: how to read it.
    """
    shown = [column for column in panels if any(column in table for table in curves.values())]
    drawn = [
        Panel(
            [
                _line(name, table, column, colour)
                for colour, (name, table) in enumerate(curves.items())
                if column in table
            ],
            title=panels[column],
            x="epoch",
        )
        for column in shown
    ]
    return Chart(title, drawn, columns=4, note=note)


def _line(name: str, table: pd.DataFrame, column: str, colour: int) -> Line:
    by_epoch = table.groupby("epoch")[column].agg(["mean", "std"])
    deviation = by_epoch["std"].fillna(0)
    return Line(
        by_epoch.index.tolist(), by_epoch["mean"].tolist(), name, colour=colour, markers=len(by_epoch) < 2,
        low=(by_epoch["mean"] - deviation).tolist(), high=(by_epoch["mean"] + deviation).tolist(),
    )  # fmt: skip

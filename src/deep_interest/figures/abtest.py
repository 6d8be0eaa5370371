"""Charts of an A/B test: lifts by metric, by day and by days since the first exposure."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from deep_interest.abtest.metrics import METRICS
from deep_interest.figures.chart import Chart, Line, Mark, Panel, Points, VerticalLine

_WIDEST = 6.0  # times the last band: the widest that is drawn, as the first days would set the scale


def metrics_chart(results: pd.DataFrame, *, title: str) -> Chart:
    """Draw the lift of every metric and arm with its interval.

    Args:
        results: `Readout.results`, or the same read back from CSV.
        title: heading of the chart.
    """
    arms, metrics = list(results["arm"].unique()), list(results["metric"].unique())
    marks: list[Mark] = [VerticalLine(0.0, "")]
    for color, arm in enumerate(arms):
        rows = results[results["arm"] == arm]
        shift = (color - (len(arms) - 1) / 2) * 0.6 / len(arms)
        marks.append(
            Points(
                (100 * rows["lift"]).tolist(), [metrics.index(metric) + shift for metric in rows["metric"]], arm, color=color,
                error=(50 * (rows["high"] - rows["low"])).fillna(0).tolist(),
                hover=[f"{METRICS[row.metric].name}, {row.arm}: {row.lift:+.1%}" for row in rows.itertuples()],
            )
        )  # fmt: skip
    panel = Panel(
        marks, x_label="lift (%)", y_ticks=[METRICS[metric].name for metric in metrics], y_reversed=True
    )
    return Chart(
        title, [panel], row_height=90 + 34 * len(metrics),
        note="Lift over the control with its fixed-horizon 95% interval over users, on the last day. An interval that includes 0 shows no "
        "difference.",
    )  # fmt: skip


def days_chart(by_day: pd.DataFrame, *, title: str) -> Chart:
    """Draw the lift up to each day with its always-valid interval.

    Args:
        by_day: `Readout.by_day`, or the same read back from CSV.
        title: heading of the chart.
    """
    panels = [
        Panel(
            [*_arms(rows, "always_"), _zero(np.arange(1, rows["day"].nunique() + 1))],
            title=METRICS[metric].name, x_label="day of the test", y_label="lift (%)",
        )
        for metric, rows in by_day.groupby("metric", sort=False)
    ]  # fmt: skip
    return Chart(
        title, panels,
        note="All sums from the first day to each day. The band is the always-valid interval: once it excludes 0, the test can stop. Days on "
        f"which it is more than {_WIDEST:.0f} times as wide as on the last day are left out.",
    )  # fmt: skip


def novelty_chart(by_tenure: pd.DataFrame, results: pd.DataFrame, *, title: str) -> Chart:
    """Draw the lift by days since a user's first exposure, with the line of the novelty test.

    Args:
        by_tenure: `Readout.by_tenure`, or the same read back from CSV.
        results: `Readout.results`, for the slopes.
        title: heading of the chart.
    """
    panels = [
        Panel(
            [*_arms(by_tenure[by_tenure["metric"] == metric], "", rows), _zero([0, rows["slope_last_day"].max()])],
            title=METRICS[metric].name, x_label="days since the first exposure", y_label="lift (%)",
        )
        for metric, rows in results.groupby("metric", sort=False)
    ]  # fmt: skip
    return Chart(
        title, panels,
        note="Lift on the days that are so many days after a user's first exposure, with 95% intervals over users, and the line whose slope "
        "is tested. A lift that falls is a novelty effect.",
    )  # fmt: skip


def _arms(rows: pd.DataFrame, prefix: str, slopes: pd.DataFrame | None = None) -> Iterator[Line]:
    """Yield the line of each arm with its band, and that of its slope."""
    for color, (arm, of) in enumerate(rows.groupby("arm", sort=False)):
        x = np.arange(1, len(of) + 1) if slopes is None else of["days_since_first"].to_numpy()
        values = 100 * of[["lift", f"{prefix}low", f"{prefix}high"]].to_numpy()
        width = values[:, 2] - values[:, 1]
        drawn = width <= _WIDEST * width[-1]
        lift, low, high = (values[drawn, column].tolist() for column in range(3))
        yield Line(x[drawn].tolist(), lift, str(arm), color=color, lower=low, upper=high, markers=True)
        if slopes is not None:
            line = slopes[slopes["arm"] == arm].iloc[0]
            if pd.notna(line["slope_first"]):
                ends = (100 * line[["slope_first", "slope_last"]]).tolist()
                yield Line(
                    [int(x[0]), int(line["slope_last_day"])], ends, f"{arm}, line", color=color, dashed=True
                )


def _zero(x: object) -> Line:
    ends = np.asarray(x, float)[[0, -1]].tolist()
    return Line(ends, [0.0, 0.0], "", color=-1)

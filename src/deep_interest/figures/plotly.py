"""A chart as Plotly's JSON, for Kedro-Viz and the HTML report."""

import json
import math
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from deep_interest.figures.chart import GREY, Chart, HeatMap, Line, Panel, Points, VerticalLine, palette_color
from deep_interest.figures.plotly_labels import (
    has_labels,
    label_annotations,
    label_placements,
    label_ranges,
)
from deep_interest.figures.plotly_marks import literal_text, traces_of

GRID_COLOR = "rgba(128,136,144,0.25)"
PANEL_TITLE = "panel title"  # name of the annotations that `plotly_panels` replaces by HTML headings


def plotly_figure(chart: Chart) -> dict[str, Any]:
    """Draw all panels of a chart in one Plotly figure.

    Returns:
        ``data`` and ``layout`` as plain JSON values; ``layout.meta`` has the chart's note and metrics, and what
        `plotly_panels.split_panels` needs to split the figure.
    """
    count, columns = len(chart.panels), min(chart.columns, len(chart.panels))
    rows = math.ceil(count / columns)
    cells = [divmod(index, columns) for index in range(rows * columns)]
    figure = make_subplots(
        rows, columns,
        specs=[[{} if row * columns + column < count else None for column in range(columns)] for row in range(rows)],
        horizontal_spacing=_horizontal_spacing(chart, columns),
        vertical_spacing=min(0.16, 0.6 / rows) if rows > 1 else 0,
    )  # fmt: skip
    legend_names: set[str] = set()
    for (row, column), panel in zip(cells, chart.panels, strict=False):
        _add_panel(
            figure, panel, {"row": row + 1, "col": column + 1}, legend_names, row_height=chart.row_height
        )
    figure.update_layout(
        template={},
        title={"text": literal_text(chart.title), "x": 0, "xanchor": "left", "font": {"size": 15}},
        meta={
            "note": chart.note, "metrics": chart.metrics, "row_height": chart.row_height,
            "panel_titles": [panel.title for panel in chart.panels],
            "labels": [label_placements(panel, chart.row_height) for panel in chart.panels],
        },
        height=110 + chart.row_height * rows,
        font={"family": "system-ui, sans-serif", "size": 12, "color": GREY},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "y": -0.16, "yanchor": "top", "x": 0},
        margin={"l": 60, "r": 64 if any(panel.right_labels for panel in chart.panels) else 20, "t": 60, "b": 50}, bargap=0.3, hovermode="closest",
    )  # fmt: skip
    return json.loads(figure.to_json())  # NaN becomes null


def _horizontal_spacing(chart: Chart, columns: int) -> float:
    """Return the gap between columns as a share of the width; wider if labels of both neighbours are in it."""
    if columns == 1:
        return 0
    labelled = any(panel.y_ticks or panel.right_labels for panel in chart.panels)
    return 0.5 / columns if labelled else 0.09


def _add_panel(
    figure: go.Figure, panel: Panel, cell: dict[str, int], legend_names: set[str], *, row_height: int
) -> None:
    """Draw a panel in a cell of the figure; names already in the legend are not repeated there."""
    for mark in panel.marks:
        for trace in traces_of(mark):
            trace.showlegend = (
                trace.showlegend is not False and bool(trace.name) and trace.name not in legend_names
            )
            legend_names.add(trace.name)
            figure.add_trace(trace, **cell)
        if isinstance(mark, VerticalLine):
            line = {
                "color": palette_color(mark.color),
                "width": 1.3,
                "dash": "dash" if mark.dashed else "solid",
            }
            figure.add_vline(mark.x, line=line, layer="below", **cell)
        if isinstance(mark, HeatMap | Points) and mark.color_label:
            figure.layout.coloraxis = {"colorscale": "Viridis", "colorbar": _color_bar(mark.color_label)}
    axis = {"gridcolor": GRID_COLOR, "zeroline": False, "automargin": True, "type": "linear"}
    figure.update_xaxes(**axis | {"title": literal_text(panel.x_label)} | _x_scale(panel), **cell)
    figure.update_yaxes(**axis | {"title": literal_text(panel.y_label)} | _y_scale(panel), **cell)
    if has_labels(panel):
        x_range, y_range = label_ranges(panel)
        figure.update_xaxes(range=x_range, **cell)
        figure.update_yaxes(range=y_range, **cell)
        for annotation in label_annotations(panel, row_height):
            figure.add_annotation(**annotation, **cell)
    if panel.title:
        figure.add_annotation(
            name=PANEL_TITLE, text=f"<b>{literal_text(panel.title)}</b>", x=0, y=1, xref="x domain", yref="y domain",
            xanchor="left", yanchor="bottom", showarrow=False, **cell,
        )  # fmt: skip
    for y, label in enumerate(panel.right_labels or ()):
        figure.add_annotation(
            text=literal_text(label), x=1, y=y, xref="x domain", xanchor="left", yanchor="middle", showarrow=False, **cell,
        )  # fmt: skip


def _x_scale(panel: Panel) -> dict[str, Any]:
    if panel.x_log:
        step = 1 if panel.spans_many_decades else "D2"  # "D2" adds 2 and 5 times each power of ten
        return {"type": "log", "dtick": step, "tickformat": "~g"}
    if panel.x_ticks is not None:
        return _tick_labels(panel.x_ticks)
    if panel.has_integer_x:
        values = [x for mark in panel.marks if isinstance(mark, Line) for x in mark.x]
        step = max(1, round((max(values) - min(values)) / 6))
        return {"tickformat": "d", "tick0": 0, "dtick": step}
    return {}


def _y_scale(panel: Panel) -> dict[str, Any]:
    if panel.rank_limits is not None:
        return {"range": list(panel.rank_limits), "tickformat": "d"}
    if panel.y_ticks is None:
        return {}
    labels = _tick_labels(panel.y_ticks)
    return labels | ({"range": [len(panel.y_ticks) - 0.5, -0.5]} if panel.y_reversed else {})


def _tick_labels(labels: Any) -> dict[str, Any]:
    return {
        "tickmode": "array", "tickvals": list(range(len(labels))), "ticktext": [literal_text(label) for label in labels],
    }  # fmt: skip


def _color_bar(title: str) -> dict[str, Any]:
    """Return a horizontal colour bar above the panel; at the side, a phone has no width for it."""
    return {
        "title": {"text": title, "side": "top"}, "orientation": "h", "x": 0, "xanchor": "left", "y": 1.01, "yanchor": "bottom",
        "len": 0.5, "thickness": 8, "nticks": 4, "tickangle": 0,
    }  # fmt: skip

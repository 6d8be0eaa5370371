"""The marks of a chart as Plotly traces."""

from typing import Any

import plotly.graph_objects as go

from deep_interest.figures.chart import (
    GREY,
    SYMBOLS,
    Bars,
    HeatMap,
    Line,
    Mark,
    Points,
    VerticalLine,
    palette_color,
)


def literal_text(text: str) -> str:
    """Escape a string that Plotly must show literally; it would turn an item called ``<a href=…>`` into a link."""
    return text.replace("<", "&lt;")


def original_text(text: str) -> str:
    """Return the string that `literal_text` was given, for pages that escape it themselves."""
    return text.replace("&lt;", "<")


def traces_of(mark: Mark) -> list[Any]:
    """Return the Plotly traces that draw a mark.

    A vertical line gets a trace without points, which only adds its entry to the legend.
    """
    match mark:
        case Line():
            return _line(mark)
        case Points():
            return [_points(mark)]
        case Bars():
            return [
                go.Bar(
                    x=mark.lengths, y=mark.positions, orientation="h", name=literal_text(mark.name),
                    marker_color=palette_color(mark.color),
                )
            ]  # fmt: skip
        case VerticalLine():
            dash = "dash" if mark.dashed else "solid"
            line = {"color": palette_color(mark.color), "width": 1.3, "dash": dash}
            return [go.Scatter(x=[None], y=[None], mode="lines", name=literal_text(mark.name), line=line)]
        case HeatMap():
            return [go.Heatmap(z=mark.values, coloraxis="coloraxis", name="")]


def _line(line: Line) -> list[go.Scatter]:
    color, name = palette_color(line.color), literal_text(line.name)
    trace = go.Scatter(
        x=line.x, y=line.y, mode="lines+markers" if line.markers else "lines", name=name, legendgroup=name,
        line={"color": color, "width": 2, "dash": "dash" if line.dashed else "solid"},
    )  # fmt: skip
    if line.lower is None or line.upper is None:
        return [trace]
    band = go.Scatter(
        x=[*line.x, *reversed(line.x)], y=[*line.upper, *reversed(line.lower)], mode="lines", fill="toself",
        fillcolor=f"rgba{(*bytes.fromhex(color[1:]), 0.18)}", line={"width": 0}, hoverinfo="skip", name=name, legendgroup=name,
        showlegend=False,
    )  # fmt: skip
    return [trace, band]


def _points(points: Points) -> go.Scatter:
    color = palette_color(points.color)
    marker: dict[str, Any] = {"size": 8, "color": color, "symbol": SYMBOLS[points.symbol % len(SYMBOLS)]}
    if points.color_values is not None:
        marker |= {
            "color": points.color_values, "coloraxis": "coloraxis", "line": {"width": 1.2, "color": GREY},
        }  # fmt: skip
    trace = go.Scatter(x=points.x, y=points.y, mode="markers", name=literal_text(points.name), marker=marker)
    if points.hover is not None:
        trace.update(
            text=[literal_text(text) for text in points.hover], hovertemplate="%{text}<extra></extra>"
        )
    if points.error is not None:
        trace.error_x = {"type": "data", "array": points.error, "color": color, "thickness": 2, "width": 0}
    return trace

"""A chart as Plotly's JSON, for Kedro-Viz and the report. Plain dictionaries: nothing of Plotly is needed to write them."""

from collections.abc import Sequence
from typing import Any

from deep_interest.figures.chart import (
    GREY,
    SYMBOLS,
    Bars,
    Cells,
    Chart,
    Line,
    Mark,
    Panel,
    Points,
    Rule,
    colour_of,
)

GRID = "rgba(128,136,144,0.25)"
SCALE = "Viridis"


def plotly_figure(chart: Chart) -> dict[str, Any]:
    """All panels in one figure: ``data`` and ``layout``; ``layout.meta`` has the chart's note and numbers."""
    count, columns = len(chart.panels), min(chart.columns, len(chart.panels))
    rows = -(-count // columns)
    layout: dict[str, Any] = {
        "title": {"text": literal_text(chart.title), "x": 0, "xanchor": "left", "font": {"size": 15}},
        "meta": {
            "note": chart.note,
            "numbers": chart.numbers,
            "columns": columns,
            "panels": count,
            "row_height": chart.height,
        },
        "height": 110 + chart.height * rows,
        **_common(),
    }
    data: list[dict[str, Any]] = []
    named: set[str] = set()
    for number, panel in enumerate(chart.panels):
        row, column = divmod(number, columns)
        gap_x, gap_y = 0.09 if columns > 1 else 0.0, 0.16 if rows > 1 else 0.0
        width, height = (1 - gap_x * (columns - 1)) / columns, (1 - gap_y * (rows - 1)) / rows
        left, top = column * (width + gap_x), 1 - row * (height + gap_y)
        traces, axes = _panel(panel, number + 1, (left, left + width), (top - height, top))
        scale = next((mark.scale for mark in panel.marks if getattr(mark, "scale", "")), "")
        if scale:
            layout["coloraxis"] = {"colorscale": SCALE, "colorbar": _bar(scale)}
        for trace in traces:
            name = trace["name"] = literal_text(trace.get("name") or "")
            listed = trace.pop("listed", True)
            trace["showlegend"] = bool(name) and name not in named and listed
            named.add(name or "")
        data += traces
        layout["annotations"] = layout.get("annotations", []) + axes.pop("annotations")
        layout["shapes"] = layout.get("shapes", []) + axes.pop("shapes")
        layout |= axes
    return {"data": data, "layout": layout}


def literal_text(text: str) -> str:
    """Return a text that Plotly shows literally: an item may be called ``<a href=…>``, and Plotly would make a link of it."""
    return text.replace("<", "&lt;")


def original_text(text: str) -> str:
    """Return the text that `literal_text` was given, for pages with an escaping of their own."""
    return text.replace("&lt;", "<")


def panels_of(figure: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels of a `plotly_figure` as figures of their own, for pages that arrange them by their width."""
    return [_alone(figure, number) for number in range(1, figure["layout"]["meta"]["panels"] + 1)]


def _alone(figure: dict[str, Any], number: int) -> dict[str, Any]:
    suffix = "" if number == 1 else str(number)
    layout = figure["layout"]
    data = [dict(trace) for trace in figure["data"] if trace["xaxis"] == f"x{suffix}"]
    named: set[str] = set()
    for trace in data:
        name = trace.get("name") or ""
        trace |= {"xaxis": "x", "yaxis": "y", "showlegend": bool(name) and name not in named}
        named.add(name)
    across, up = layout[f"xaxis{suffix}"], layout[f"yaxis{suffix}"]
    left, top = across["domain"][0], up["domain"][1]
    title, texts = "", []
    for note in layout.get("annotations", []):
        if note["yref"] == f"y{suffix}":
            texts.append({**note, "yref": "y", "x": 1})
        elif note["yref"] == "paper" and (note["x"], note["y"]) == (left, top):
            title = original_text(note["text"].removeprefix("<b>").removesuffix("</b>"))
    shapes = []
    for shape in layout.get("shapes", []):
        if shape["xref"].split()[0] == f"x{suffix}":
            refs = {
                ref: shape[ref].replace(f"x{suffix}", "x").replace(f"y{suffix}", "y")
                for ref in ("xref", "yref")
            }
            shapes.append({**shape, **refs})
    own = {
        key: layout[key] for key in ("font", "paper_bgcolor", "plot_bgcolor", "legend", "bargap", "hovermode")
    }
    own |= {
        "xaxis": {**across, "domain": [0, 1], "anchor": "y"}, "yaxis": {**up, "domain": [0, 1], "anchor": "x"},
        "annotations": texts, "shapes": shapes, "height": layout["meta"]["row_height"],
        "margin": {"l": 50, "r": 64 if texts else 10, "t": 10, "b": 40}, "meta": {"title": title},
    }  # fmt: skip
    if "scaleanchor" in up:
        own["yaxis"] |= {"scaleanchor": "x"}
    if any("coloraxis" in trace or "coloraxis" in trace.get("marker", {}) for trace in data):
        own |= {"coloraxis": layout["coloraxis"]}
        own["margin"] |= {"t": 60}
    return {"data": data, "layout": own}


def _common() -> dict[str, Any]:
    return {
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": GREY},
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "y": -0.16, "yanchor": "top", "x": 0},
        "margin": {"l": 60, "r": 20, "t": 60, "b": 50}, "bargap": 0.3, "hovermode": "closest",
    }  # fmt: skip


def _bar(title: str) -> dict[str, Any]:
    """A colour scale above the panel: beside it, it would take the width that a phone does not have."""
    return {
        "title": {"text": title, "side": "top"}, "orientation": "h", "x": 0, "xanchor": "left", "y": 1.01, "yanchor": "bottom",
        "len": 0.5, "thickness": 8, "nticks": 4, "tickangle": 0,
    }  # fmt: skip


def _panel(
    panel: Panel, number: int, across: Sequence[float], up: Sequence[float]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    suffix = "" if number == 1 else str(number)
    x_name, y_name = f"x{suffix}", f"y{suffix}"
    traces = [trace for mark in panel.marks for trace in _traces(mark)]
    for trace in traces:
        trace |= {"xaxis": x_name, "yaxis": y_name}
    shapes = [_rule(mark, x_name, y_name) for mark in panel.marks if isinstance(mark, Rule)]
    annotations = (
        [_text(f"<b>{literal_text(panel.title)}</b>", across[0], up[1], above=True)] if panel.title else []
    )
    annotations += [
        {**_text(literal_text(text), across[1], place), "yref": y_name, "xanchor": "left"}
        for place, text in enumerate(panel.right or ())
    ]
    axes = {
        f"xaxis{suffix}": _axis(panel.x, panel.x_ticks, across, y_name) | _numbers_along_x(panel),
        f"yaxis{suffix}": _axis(panel.y, panel.y_ticks, up, x_name, downwards=panel.downwards),
        "annotations": annotations, "shapes": shapes,
    }  # fmt: skip
    if panel.right:
        axes["margin"] = {"l": 60, "r": 70, "t": 60, "b": 50}
    if panel.square:
        axes[f"yaxis{suffix}"] |= {"scaleanchor": x_name}
    return traces, axes


def _axis(
    title: str,
    ticks: Sequence[str] | None,
    domain: Sequence[float],
    anchor: str,
    *,
    downwards: bool = False,
) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": literal_text(title)}, "domain": list(domain), "anchor": anchor, "gridcolor": GRID, "zeroline": False,
        "automargin": True, "type": "linear",
    }  # fmt: skip
    if ticks is not None:
        axis |= {
            "tickmode": "array",
            "tickvals": list(range(len(ticks))),
            "ticktext": [literal_text(text) for text in ticks],
        }
    if downwards and ticks is not None:
        axis["range"] = [len(ticks) - 0.5, -0.5]
    elif downwards:
        axis["autorange"] = "reversed"
    return axis


def _numbers_along_x(panel: Panel) -> dict[str, Any]:
    """How the x axis counts, where it is none of named places."""
    if panel.x_log:
        step = 1 if panel.over_many_decades else "D2"  # powers of ten; with 2 and 5 times these
        return {"type": "log", "dtick": step, "tickformat": "~g"}
    if panel.x_ticks is None and panel.counts_along_x:
        first, last = (
            edge(x for mark in panel.marks if isinstance(mark, Line) for x in mark.x) for edge in (min, max)
        )
        return {"tickformat": "d", "tick0": 0, "dtick": max(1, round((last - first) / 6))}
    return {}


def _text(text: str, x: float, y: float, *, above: bool = False) -> dict[str, Any]:
    return {
        "text": text, "x": x, "y": y, "xref": "paper", "yref": "paper", "showarrow": False,
        "xanchor": "left", "yanchor": "bottom" if above else "middle",
    }  # fmt: skip


def _rule(rule: Rule, x_name: str, y_name: str) -> dict[str, Any]:
    line = {"color": colour_of(rule.colour), "width": 1.3, "dash": "dash" if rule.dashed else "solid"}
    ends = (
        {"x0": rule.value, "x1": rule.value, "y0": 0, "y1": 1, "xref": x_name, "yref": f"{y_name} domain"}
        if rule.axis == "x"
        else {
            "y0": rule.value,
            "y1": rule.value,
            "x0": 0,
            "x1": 1,
            "yref": y_name,
            "xref": f"{x_name} domain",
        }
    )
    return {"type": "line", "line": line, "layer": "below", **ends}


def _traces(mark: Mark) -> list[dict[str, Any]]:
    match mark:
        case Line():
            return _line(mark)
        case Points():
            return [_points(mark)]
        case Bars():
            x, y = (mark.length, mark.at) if mark.lying else (mark.at, mark.length)
            return [
                {
                    "type": "bar", "x": _plain(x), "y": _plain(y), "name": mark.name, "orientation": "h" if mark.lying else "v",
                    "marker": {"color": colour_of(mark.colour)},
                }
            ]  # fmt: skip
        case Rule():  # its legend entry; the line itself is a shape
            line = {"color": colour_of(mark.colour), "width": 1.3, "dash": "dash" if mark.dashed else "solid"}
            return [
                {
                    "type": "scatter",
                    "mode": "lines",
                    "x": [None],
                    "y": [None],
                    "name": mark.name,
                    "line": line,
                }
            ]
        case Cells():
            values = [_plain(row) for row in mark.values]
            return [
                {
                    "type": "heatmap", "z": values, "name": "", "coloraxis": "coloraxis",
                }
            ]  # fmt: skip


def _line(line: Line) -> list[dict[str, Any]]:
    colour = colour_of(line.colour)
    style = {"color": colour, "width": 2, "dash": "dash" if line.dashed else "solid"}
    trace = {
        "type": "scatter", "mode": "lines+markers" if line.markers else "lines", "x": _plain(line.x), "y": _plain(line.y),
        "name": line.name, "line": style, "legendgroup": line.name,
    }  # fmt: skip
    if line.low is None or line.high is None:
        return [trace]
    edges = [*_plain(line.high), *reversed(_plain(line.low))]
    band = {
        "type": "scatter", "mode": "lines", "x": [*_plain(line.x), *reversed(_plain(line.x))], "y": edges, "fill": "toself",
        "fillcolor": f"rgba{(*bytes.fromhex(colour[1:]), 0.18)}", "line": {"width": 0}, "hoverinfo": "skip",
        "name": line.name, "legendgroup": line.name, "listed": False,
    }  # fmt: skip
    return [trace, band]


def _points(points: Points) -> dict[str, Any]:
    marker: dict[str, Any] = {
        "size": 8,
        "color": colour_of(points.colour),
        "symbol": SYMBOLS[points.symbol % len(SYMBOLS)],
    }
    if points.values is not None:
        marker |= {
            "color": _plain(points.values),
            "coloraxis": "coloraxis",
            "line": {"width": 1.2, "color": GREY},
        }
    trace: dict[str, Any] = {
        "type": "scatter", "mode": "markers", "x": _plain(points.x), "y": _plain(points.y), "name": points.name, "marker": marker,
    }  # fmt: skip
    if points.text is not None:
        trace |= {
            "text": [literal_text(text) for text in points.text],
            "hovertemplate": "%{text}<extra></extra>",
        }
    if points.error is not None:
        trace["error_x"] = {
            "type": "data",
            "array": _plain(points.error),
            "color": marker["color"],
            "thickness": 2,
            "width": 0,
        }
    return trace


def _plain(values: Sequence[float]) -> list[float | None]:
    """JSON knows no NaN."""
    return [None if value is None or value != value else float(value) for value in values]  # noqa: PLR0124

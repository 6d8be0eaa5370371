"""Split a Plotly figure into its panels, for pages that arrange them by their width."""

from typing import Any

from deep_interest.errors import InputError
from deep_interest.figures.plotly import PANEL_TITLE
from deep_interest.figures.plotly_labels import POINT_LABEL

SHARED_LAYOUT = ("font", "paper_bgcolor", "plot_bgcolor", "legend", "bargap", "hovermode")


def split_panels(figure: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a `plotly.plotly_figure` as figures of their own.

    Returns:
        ``data`` and ``layout`` of each panel; ``layout.meta.title`` is its title, which the panel itself does not show.

    Raises:
        InputError: the figure was written by another version of this package.
    """
    meta = figure["layout"].get("meta") or {}
    if "panel_titles" not in meta:
        title = figure["layout"].get("title", {}).get("text", "")
        raise InputError(
            f"chart {title!r}: written by another version of deep-interest; run the pipeline that draws it again"
        )
    return [_panel(figure, index, title) for index, title in enumerate(meta["panel_titles"])]


def _panel(figure: dict[str, Any], index: int, title: str) -> dict[str, Any]:
    suffix = str(index + 1) if index else ""
    x = f"x{suffix}"
    layout = figure["layout"]
    traces = [trace | {"xaxis": "x", "yaxis": "y"} for trace in figure["data"] if trace["xaxis"] == x]
    names: set[str] = set()
    for trace in traces:
        trace["showlegend"] = bool(trace["name"]) and trace["name"] not in names
        names.add(trace["name"])
    labels = [
        _with_own_axes(annotation, suffix)
        for annotation in layout.get("annotations", [])
        if annotation["xref"].split()[0] == x and annotation.get("name") != PANEL_TITLE
    ]
    at_right = [label for label in labels if label.get("name") != POINT_LABEL]
    has_color_scale = any("coloraxis" in trace or "coloraxis" in trace.get("marker", {}) for trace in traces)
    panel = {key: layout[key] for key in SHARED_LAYOUT} | {
        "xaxis": layout[f"xaxis{suffix}"] | {"domain": [0, 1], "anchor": "y"},
        "yaxis": layout[f"yaxis{suffix}"] | {"domain": [0, 1], "anchor": "x"},
        "annotations": labels,
        "shapes": [
            _with_own_axes(shape, suffix)
            for shape in layout.get("shapes", [])
            if shape["xref"].split()[0] == x
        ],
        "height": layout["meta"]["row_height"],
        "margin": {"l": 50, "r": 64 if at_right else 10, "t": 60 if has_color_scale else 10, "b": 40},
        "meta": {"title": title},
    }
    if placements := (layout["meta"].get("labels") or [{}] * (index + 1))[index]:
        panel["meta"]["labels"] = placements
        panel["margin"]["l"] = 64
        panel["xaxis"]["automargin"] = panel["yaxis"]["automargin"] = False  # the labels fit this plot area
    if has_color_scale:
        panel["coloraxis"] = layout["coloraxis"]
    return {"data": traces, "layout": panel}


def _with_own_axes(item: dict[str, Any], suffix: str) -> dict[str, Any]:
    """Return an annotation or a shape that refers to ``x`` and ``y`` in place of ``x<suffix>`` and ``y<suffix>``."""
    return item | {
        key: item[key].replace(f"{axis}{suffix}", axis, 1) for key, axis in (("xref", "x"), ("yref", "y"))
    }

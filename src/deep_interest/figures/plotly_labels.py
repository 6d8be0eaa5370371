"""Labels at the points of a panel as Plotly annotations, placed for several widths of the plot area."""

import math
from collections.abc import Sequence
from typing import Any

from deep_interest.figures.chart import GREY, Panel, Points
from deep_interest.figures.labels import label_offsets, short_label
from deep_interest.figures.plotly_marks import literal_text

POINT_LABEL = "point label"  # name of the annotations
WIDTHS = (270, 560, 820, 1090)  # of the plot area in pixels: phone, tablet, and two sizes of windows
DEFAULT_WIDTH = 820  # for viewers that do not choose, such as Kedro-Viz
MARGINS = 60  # above and below the plot area, in pixels, of a panel on a page
PADDING = 0.06  # between the points and the edges, as a share of the range of the points

Placements = dict[str, list[tuple[float, float]]]


def has_labels(panel: Panel) -> bool:
    """Return whether the points of a panel have labels."""
    return bool(_labelled(panel))


def label_annotations(panel: Panel, row_height: int) -> list[dict[str, Any]]:
    """Return one annotation per labelled point, placed for `DEFAULT_WIDTH`."""
    return [
        {
            "name": POINT_LABEL, "text": literal_text(label), "x": x, "y": y, "ax": dx, "ay": dy, "font": {"size": 11},
            "showarrow": True, "arrowhead": 0, "arrowwidth": 0.8, "arrowcolor": GREY, "standoff": 4, "borderpad": 0,
        }
        for (x, y, label), (dx, dy) in zip(_labelled(panel), _offsets(panel, DEFAULT_WIDTH, row_height), strict=True)
    ]  # fmt: skip


def label_placements(panel: Panel, row_height: int) -> Placements:
    """Return the offsets of the labels by the width of the plot area, for a panel of a given height; empty without labels."""
    if not has_labels(panel):
        return {}
    return {str(width): _offsets(panel, width, row_height) for width in WIDTHS}


def label_ranges(panel: Panel) -> tuple[list[float], list[float]]:
    """Return the ranges of the axes of a panel with labels; those of a logarithmic axis in powers of ten."""
    points = _labelled(panel)
    return _range([x for x, _, _ in points]), _range([y for _, y, _ in points])


def _labelled(panel: Panel) -> list[tuple[float, float, str]]:
    """Return coordinates on the axes and label of each labelled point."""
    scale = math.log10 if panel.x_log else float
    return [
        (scale(x), float(y), short_label(label))
        for mark in panel.marks
        if isinstance(mark, Points) and mark.labels is not None
        for x, y, label in zip(mark.x, mark.y, mark.labels, strict=True)
    ]


def _offsets(panel: Panel, width: float, row_height: float) -> list[tuple[float, float]]:
    points = _labelled(panel)
    height = max(row_height - MARGINS, MARGINS)
    (left, right), (bottom, top) = label_ranges(panel)
    return label_offsets(
        [(x - left) / (right - left) * width for x, _, _ in points],
        [(top - y) / (top - bottom) * height for _, y, _ in points],
        [label for _, _, label in points], width=width, height=height,
    )  # fmt: skip


def _range(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    padding = PADDING * (high - low) or 0.5
    return [low - padding, high + padding]

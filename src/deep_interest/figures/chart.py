"""Description of a chart, independent of the library that draws it: `figures.plotly` or `figures.png`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan

PALETTE = (
    "#2E86C1", "#D9662B", "#2E9E6B", "#B25FA8", "#A08A1C", "#C2434B", "#1F9AA8", "#7A6FD0",
)  # fmt: skip  # contrast of at least 3 on white and on black
GREY = "#808890"
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star")


def palette_color(index: int) -> str:
    """Return a colour of the palette as ``#RRGGBB``; a negative index is grey, an index past the end starts again."""
    return GREY if index < 0 else PALETTE[index % len(PALETTE)]


@dataclass(frozen=True)
class Line:
    """A line through points.

    Attributes:
        x, y: coordinates of the points.
        name: entry in the legend.
        color: index in the palette; -1 is grey.
        lower, upper: edges of a band around the line.
        dashed: draw a dashed line.
        markers: mark the points.
    """

    x: Sequence[float]
    y: Sequence[float]
    name: str
    color: int = 0
    lower: Sequence[float] | None = None
    upper: Sequence[float] | None = None
    dashed: bool = False
    markers: bool = False


@dataclass(frozen=True)
class Points:
    """Points of a scatter plot.

    Attributes:
        x, y: coordinates of the points.
        name: entry in the legend.
        color: index in the palette; -1 is grey.
        error: half the length of each point's horizontal error bar.
        color_values: a value per point that a colour scale shows, in place of ``color``.
        color_label: label of the colour scale.
        symbol: index in `SYMBOLS`.
        hover: a string per point, shown when the pointer is over it.
        labels: a string per point, shown next to it; then all points of the panel need labels.
    """

    x: Sequence[float]
    y: Sequence[float]
    name: str
    color: int = 0
    error: Sequence[float] | None = None
    color_values: Sequence[float] | None = None
    color_label: str = ""
    symbol: int = 0
    hover: Sequence[str] | None = None
    labels: Sequence[str] | None = None


@dataclass(frozen=True)
class Bars:
    """Horizontal bars that start at 0.

    Attributes:
        positions: y coordinate of each bar.
        lengths: length of each bar.
        name: entry in the legend.
        color: index in the palette.
    """

    positions: Sequence[float]
    lengths: Sequence[float]
    name: str
    color: int = 0


@dataclass(frozen=True)
class VerticalLine:
    """A vertical reference line across the panel.

    Attributes:
        x: position of the line.
        name: entry in the legend.
        color: index in the palette; -1 is grey.
        dashed: draw a dashed line.
    """

    x: float
    name: str
    color: int = -1
    dashed: bool = False


@dataclass(frozen=True)
class HeatMap:
    """A heat map.

    Attributes:
        values: rows from bottom to top, each a sequence along x.
        color_label: label of the colour scale.
    """

    values: Sequence[Sequence[float]]
    color_label: str


Mark = Line | Points | Bars | VerticalLine | HeatMap


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        marks: what is drawn, from back to front.
        title: heading of the panel.
        x_label, y_label: labels of the axes.
        x_ticks, y_ticks: tick labels in place of the numbers 0, 1, …
        right_labels: labels at the right edge, at y = 0, 1, …
        x_log: use a logarithmic x axis.
        y_reversed: let y grow downwards. Without ``y_ticks``, y are ranks from 1.
    """

    marks: Sequence[Mark]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    x_ticks: Sequence[str] | None = None
    y_ticks: Sequence[str] | None = None
    right_labels: Sequence[str] | None = None
    x_log: bool = False
    y_reversed: bool = False

    @property
    def has_integer_x(self) -> bool:
        """Whether the x coordinates of all lines are whole numbers, such as epochs."""
        lines = [mark for mark in self.marks if isinstance(mark, Line)]
        return bool(lines) and all(float(x).is_integer() for line in lines for x in line.x)

    @property
    def rank_limits(self) -> tuple[float, float] | None:
        """Bottom and top of an axis of ranks; None for other axes and without a line."""
        if not self.y_reversed or self.y_ticks is not None:
            return None
        ranks = [y for mark in self.marks if isinstance(mark, Line) for y in mark.y if not isnan(y)]
        return (max(ranks) + 0.5, 0.5) if ranks else None

    @property
    def spans_many_decades(self) -> bool:
        """Whether a logarithmic x axis is so long that only powers of ten can have a tick."""
        values = [x for mark in self.marks if isinstance(mark, Line | Points) for x in mark.x if x > 0]
        return bool(values) and max(values) > 1000 * min(values)


@dataclass(frozen=True)
class Chart:
    """Panels under one title.

    Attributes:
        title: heading of the chart.
        panels: panels from left to right, then from top to bottom.
        note: what the chart shows and how to read it, in a sentence or two.
        columns: maximum number of panels in a row.
        row_height: height of a row of panels, in pixels.
        metrics: what the chart shows as numbers, by name.
    """

    title: str
    panels: Sequence[Panel]
    note: str = ""
    columns: int = 3
    row_height: int = 340
    metrics: dict[str, float] = field(default_factory=dict)

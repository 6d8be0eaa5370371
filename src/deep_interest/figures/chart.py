"""What a picture shows, apart from who draws it: `figures.plotly` makes it interactive, `figures.png` a file."""

from collections.abc import Sequence
from dataclasses import dataclass, field

PALETTE = (
    "#2E86C1",
    "#D9662B",
    "#2E9E6B",
    "#B25FA8",
    "#A08A1C",
    "#C2434B",
    "#1F9AA8",
    "#7A6FD0",
)  # on white and on black
GREY = "#808890"
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star")


def colour_of(number: int) -> str:
    """A colour of the palette; grey for a negative number."""
    return GREY if number < 0 else PALETTE[number % len(PALETTE)]


@dataclass(frozen=True)
class Line:
    """A line through points.

    Attributes:
        x, y: the points.
        name: in the legend.
        colour: number in the palette; -1 is grey.
        low, high: edges of a band around it.
        dashed: drawn with gaps.
        markers: its points are marked.
    """

    x: Sequence[float]
    y: Sequence[float]
    name: str
    colour: int = 0
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False
    markers: bool = False


@dataclass(frozen=True)
class Points:
    """Points.

    Attributes:
        x, y: where.
        name: in the legend.
        colour: number in the palette; -1 is grey.
        error: half the length of a bar along x.
        values: in place of a colour, a number of each point that a colour scale shows.
        scale: what ``values`` are.
        symbol: number of the shape.
        text: of each point, shown where a pointer rests.
    """

    x: Sequence[float]
    y: Sequence[float]
    name: str
    colour: int = 0
    error: Sequence[float] | None = None
    values: Sequence[float] | None = None
    scale: str = ""
    symbol: int = 0
    text: Sequence[str] | None = None


@dataclass(frozen=True)
class Bars:
    """Bars from 0, lying or standing.

    Attributes:
        at: where each bar stands.
        length: how long it is.
        name: in the legend.
        colour: number in the palette.
        lying: along x.
    """

    at: Sequence[float]
    length: Sequence[float]
    name: str
    colour: int = 0
    lying: bool = False


@dataclass(frozen=True)
class Rule:
    """A straight line across the panel at one value.

    Attributes:
        value: of x, or of y.
        name: in the legend.
        axis: whose value.
        dashed: drawn with gaps.
        colour: number in the palette; -1 is grey.
    """

    value: float
    name: str
    axis: str = "x"
    dashed: bool = False
    colour: int = -1


@dataclass(frozen=True)
class Cells:
    """A table of coloured cells.

    Attributes:
        values: rows from below, each a sequence over x.
        scale: what the values are.
    """

    values: Sequence[Sequence[float]]
    scale: str


Mark = Line | Points | Bars | Rule | Cells


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        marks: what is drawn, the first below.
        title: heading.
        x, y: names of the axes.
        x_ticks, y_ticks: labels in place of the numbers 0, 1, …
        right: likewise at the right edge.
        x_log: a logarithmic x axis.
        downwards: y grows downwards.
        square: both axes have one scale.
    """

    marks: Sequence[Mark]
    title: str = ""
    x: str = ""
    y: str = ""
    x_ticks: Sequence[str] | None = None
    y_ticks: Sequence[str] | None = None
    right: Sequence[str] | None = None
    x_log: bool = False
    downwards: bool = False
    square: bool = False

    @property
    def counts_along_x(self) -> bool:
        """Whether the lines have whole numbers alone on the x axis, as epochs are."""
        lines = [mark for mark in self.marks if isinstance(mark, Line)]
        return bool(lines) and all(float(x).is_integer() for line in lines for x in line.x)

    @property
    def over_many_decades(self) -> bool:
        """Whether a logarithmic x axis is too long for more ticks than powers of ten."""
        values = [x for mark in self.marks if isinstance(mark, Line | Points) for x in mark.x if x > 0]
        return bool(values) and max(values) > 1000 * min(values)


@dataclass(frozen=True)
class Chart:
    """Panels side by side under one title.

    Attributes:
        title: heading.
        panels: from left to right, then the next row.
        note: what it shows and how to read it, a sentence or two.
        columns: panels in a row.
        height: of a row, in pixels.
        numbers: what it shows as numbers, by name.
    """

    title: str
    panels: Sequence[Panel]
    note: str = ""
    columns: int = 3
    height: int = 340
    numbers: dict[str, float] = field(default_factory=dict)

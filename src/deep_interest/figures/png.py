"""A chart as a matplotlib figure, for PNG files."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PathCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from deep_interest.figures.chart import (
    Bars,
    Chart,
    HeatMap,
    Line,
    Mark,
    Panel,
    Points,
    VerticalLine,
    palette_color,
)
from deep_interest.figures.labels import label_offsets, short_label

MARKERS = "osD^PXv*"
PIXELS_PER_INCH = 100  # converts the heights of charts
MAX_LABEL_LENGTH = 34
LABEL_SIZE = 7  # of labels at points, in points


def matplotlib_figure(chart: Chart) -> Figure:
    """Draw all panels of a chart in one matplotlib figure, with the legend below."""
    count, columns = len(chart.panels), min(chart.columns, len(chart.panels))
    rows = -(-count // columns)
    layout = ConstrainedLayoutEngine()
    figure = Figure(
        figsize=(7.5 if columns == 1 else 3.9 * columns, 0.9 + chart.row_height / PIXELS_PER_INCH * rows),
        layout=layout,
    )
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, chart.panels, strict=False):
        _draw(axes, panel)
    for axes in grid[count:]:
        axes.set_visible(False)
    if any(panel.right_labels for panel in chart.panels):
        layout.set(wspace=0.06)  # otherwise the labels of two panels touch
    figure.suptitle(textwrap.fill(chart.title, 70 if columns < 3 else 110), x=0.01, ha="left", fontsize=12)
    entries = {
        label: handle
        for axes in grid[:count]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if entries:
        legend = figure.legend(
            entries.values(),
            [_short(label) for label in entries],
            loc="outside lower center",
            ncols=3,
            frameon=False,
            fontsize=8,
        )
        for handle, drawn in zip(legend.legend_handles, entries.values(), strict=True):
            if (
                isinstance(drawn, PathCollection)
                and isinstance(handle, PathCollection)
                and drawn.get_array() is not None
            ):
                handle.set_array(None)  # the legend explains the symbol, not the colour scale
                handle.set_facecolor(palette_color(-1))
                handle.set_edgecolor(palette_color(-1))
    for axes, panel in zip(grid, chart.panels, strict=False):
        _add_point_labels(figure, axes, panel)
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    values = [
        value
        for mark in panel.marks
        if isinstance(mark, Points) and mark.color_values is not None
        for value in mark.color_values
    ]
    limits = (min(values), max(values)) if values else None
    for mark in panel.marks:
        _mark(axes, mark, limits)
    if limits:
        label = next(
            mark.color_label
            for mark in panel.marks
            if isinstance(mark, Points) and mark.color_values is not None
        )
        _color_bar(axes, ScalarMappable(Normalize(*limits), "viridis"), label)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_xlabel(panel.x_label, fontsize=9)
    axes.set_ylabel(panel.y_label, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if not any(isinstance(mark, HeatMap) for mark in panel.marks):
        axes.grid(axis="y", color="#E5E5E5", linewidth=0.8)
        axes.set_axisbelow(True)
    if panel.x_log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if panel.spans_many_decades else (1, 2, 5)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif panel.x_ticks is None:
        axes.xaxis.set_major_locator(MaxNLocator(4 if panel.right_labels else 6, integer=panel.has_integer_x))
    if panel.x_ticks is not None:
        slanted = sum(map(len, panel.x_ticks)) > 40
        axes.set_xticks(range(len(panel.x_ticks)), [_short(label) for label in panel.x_ticks], rotation=60 if slanted else 0,
                        ha="right" if slanted else "center", rotation_mode="anchor" if slanted else None)  # fmt: skip
    if panel.y_ticks is not None:
        axes.set_yticks(range(len(panel.y_ticks)), [_short(label) for label in panel.y_ticks])
        axes.set_ylim(-0.5, len(panel.y_ticks) - 0.5)
    if panel.rank_limits is not None:
        axes.set_ylim(panel.rank_limits)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    elif panel.y_reversed:
        axes.invert_yaxis()
    if panel.right_labels is not None:
        _add_right_labels(axes, panel.right_labels)


def _add_right_labels(axes: Axes, labels: Sequence[str]) -> None:
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(labels)), labels, fontsize=8)
    for side in (axes, right):
        side.tick_params(axis="y", length=0)
        side.spines[:].set_visible(False)
    axes.spines["bottom"].set_visible(True)


def _add_point_labels(figure: Figure, axes: Axes, panel: Panel) -> None:
    """Write the labels of points next to them, after everything else has its final position."""
    labelled = [mark for mark in panel.marks if isinstance(mark, Points) and mark.labels is not None]
    if not labelled:
        return
    axes.margins(0.06)
    figure.draw_without_rendering()
    points = [(x, y) for mark in labelled for x, y in zip(mark.x, mark.y, strict=True)]
    labels = [short_label(label) for mark in labelled for label in mark.labels or ()]
    pixels, area = axes.transData.transform(points), axes.get_window_extent()
    offsets = label_offsets(
        (pixels[:, 0] - area.x0).tolist(), (area.y1 - pixels[:, 1]).tolist(), labels, width=area.width, height=area.height,
        character=LABEL_SIZE * 0.78, line=LABEL_SIZE * 1.75,
    )  # fmt: skip
    points_per_pixel = 72 / figure.dpi
    for point, label, (dx, dy) in zip(points, labels, offsets, strict=True):
        axes.annotate(
            label, point, (dx * points_per_pixel, -dy * points_per_pixel), textcoords="offset points", ha="center", va="center",
            fontsize=LABEL_SIZE, arrowprops={"arrowstyle": "-", "color": palette_color(-1), "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
        ).set_in_layout(False)  # fmt: skip


def _mark(axes: Axes, mark: Mark, limits: tuple[float, float] | None) -> None:
    match mark:
        case Line():
            axes.plot(
                mark.x, mark.y, color=palette_color(mark.color), linestyle="--" if mark.dashed else "-", linewidth=1.8,
                label=mark.name, marker="o" if mark.markers else None, markersize=4,
            )  # fmt: skip
            if mark.lower is not None and mark.upper is not None:
                axes.fill_between(
                    mark.x, mark.lower, mark.upper, color=palette_color(mark.color), alpha=0.18, linewidth=0
                )
        case Points():
            _points(axes, mark, limits)
        case Bars():
            axes.barh(mark.positions, mark.lengths, 0.7, color=palette_color(mark.color), label=mark.name)
        case VerticalLine():
            axes.axvline(
                mark.x, color=palette_color(mark.color), linestyle="--" if mark.dashed else "-", linewidth=1.2, zorder=0,
                label=mark.name,
            )  # fmt: skip
        case HeatMap():
            image = axes.imshow(np.asarray(mark.values, float), aspect="auto", origin="lower", cmap="viridis")
            _color_bar(axes, image, mark.color_label)


def _points(axes: Axes, points: Points, limits: tuple[float, float] | None) -> None:
    marker = MARKERS[points.symbol % len(MARKERS)]
    if points.error is not None:
        axes.errorbar(
            points.x, points.y, xerr=np.nan_to_num(np.asarray(points.error, float)), fmt=marker, color=palette_color(points.color),
            markersize=6, elinewidth=2, label=points.name,
        )  # fmt: skip
        return
    colors: dict[str, Any] = {"c": palette_color(points.color)}
    if limits is not None and points.color_values is not None:
        colors = {"c": points.color_values, "cmap": "viridis", "vmin": limits[0], "vmax": limits[1]}
    axes.scatter(points.x, points.y, marker=marker, s=22, label=points.name, **colors)


def _color_bar(axes: Axes, colors: ScalarMappable, label: str) -> None:
    bar = axes.figure.colorbar(colors, ax=axes, fraction=0.05, pad=0.02)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7)


def _short(text: str) -> str:
    return textwrap.shorten(text, MAX_LABEL_LENGTH, placeholder=" …")

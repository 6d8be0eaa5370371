"""A chart as a matplotlib figure, for a file."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PathCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from deep_interest.figures.chart import Bars, Cells, Chart, Line, Mark, Panel, Points, Rule, colour_of

MARKERS = "osD^PXv*"
DOTS_PER_INCH = 100  # of the chart's pixels
LONGEST_LABEL = 34


def matplotlib_figure(chart: Chart) -> Figure:
    """All panels in one figure, the legend below."""
    count, columns = len(chart.panels), min(chart.columns, len(chart.panels))
    rows = -(-count // columns)
    figure = Figure(
        figsize=(7.5 if columns == 1 else 3.9 * columns, 0.9 + chart.height / DOTS_PER_INCH * rows),
        layout="constrained",
    )
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, chart.panels, strict=False):
        _draw(axes, panel)
    for axes in grid[count:]:
        axes.set_visible(False)
    if any(panel.right for panel in chart.panels):
        figure.get_layout_engine().set(wspace=0.06)  # else the labels of two panels touch
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
            if isinstance(drawn, PathCollection) and drawn.get_array() is not None:
                handle.set_array(None)  # a shape stands for a name here, whatever its points' colours
                handle.set_facecolor(colour_of(-1))
                handle.set_edgecolor(colour_of(-1))
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    values = [
        value
        for mark in panel.marks
        if isinstance(mark, Points) and mark.values is not None
        for value in mark.values
    ]
    limits = (min(values), max(values)) if values else None
    for mark in panel.marks:
        _mark(axes, mark, limits)
    if limits:
        scale = next(
            mark.scale for mark in panel.marks if isinstance(mark, Points) and mark.values is not None
        )
        _scale_bar(axes, ScalarMappable(Normalize(*limits), "viridis"), scale)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_xlabel(panel.x, fontsize=9)
    axes.set_ylabel(panel.y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if not any(isinstance(mark, Cells) for mark in panel.marks):
        axes.grid(axis="y", color="#E5E5E5", linewidth=0.8)
        axes.set_axisbelow(True)
    if panel.x_log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if panel.over_many_decades else (1, 2, 5)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif panel.x_ticks is None:
        axes.xaxis.set_major_locator(MaxNLocator(4 if panel.right else 6, integer=panel.counts_along_x))
    if panel.x_ticks is not None:
        steep = sum(map(len, panel.x_ticks)) > 40
        axes.set_xticks(range(len(panel.x_ticks)), [_short(text) for text in panel.x_ticks], rotation=60 if steep else 0,
                        ha="right" if steep else "center", rotation_mode="anchor" if steep else None)  # fmt: skip
    if panel.y_ticks is not None:
        axes.set_yticks(range(len(panel.y_ticks)), [_short(text) for text in panel.y_ticks])
        axes.set_ylim(-0.5, len(panel.y_ticks) - 0.5)
    if panel.downwards:
        axes.invert_yaxis()
    if panel.square:
        axes.set_aspect("equal", adjustable="datalim")
    if panel.right is not None:
        _label_right(axes, panel.right)


def _label_right(axes: Axes, texts: Sequence[str]) -> None:
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(texts)), texts, fontsize=8)
    for sided in (axes, right):
        sided.tick_params(axis="y", length=0)
        sided.spines[:].set_visible(False)
    axes.spines["bottom"].set_visible(True)


def _mark(axes: Axes, mark: Mark, limits: tuple[float, float] | None) -> None:
    match mark:
        case Line():
            axes.plot(
                mark.x, mark.y, color=colour_of(mark.colour), linestyle="--" if mark.dashed else "-", linewidth=1.8,
                label=mark.name, marker="o" if mark.markers else None, markersize=4,
            )  # fmt: skip
            if mark.low is not None:
                axes.fill_between(
                    mark.x, mark.low, mark.high, color=colour_of(mark.colour), alpha=0.18, linewidth=0
                )
        case Points():
            _points(axes, mark, limits)
        case Bars():
            draw = axes.barh if mark.lying else axes.bar
            draw(mark.at, mark.length, 0.7, color=colour_of(mark.colour), label=mark.name)
        case Rule():
            draw = axes.axvline if mark.axis == "x" else axes.axhline
            draw(
                mark.value, color=colour_of(mark.colour), linestyle="--" if mark.dashed else "-", linewidth=1.2, zorder=0,
                label=mark.name,
            )  # fmt: skip
        case Cells():
            image = axes.imshow(np.asarray(mark.values, float), aspect="auto", origin="lower", cmap="viridis")
            _scale_bar(axes, image, mark.scale)


def _points(axes: Axes, points: Points, limits: tuple[float, float] | None) -> None:
    marker = MARKERS[points.symbol % len(MARKERS)]
    if points.error is not None:
        axes.errorbar(
            points.x, points.y, xerr=np.nan_to_num(np.asarray(points.error, float)), fmt=marker, color=colour_of(points.colour),
            markersize=6, elinewidth=2, label=points.name,
        )  # fmt: skip
        return
    shades = {"c": colour_of(points.colour)}
    if limits is not None and points.values is not None:
        shades = {"c": points.values, "cmap": "viridis", "vmin": limits[0], "vmax": limits[1]}
    axes.scatter(points.x, points.y, marker=marker, s=22, label=points.name, **shades)


def _scale_bar(axes: Axes, shades: ScalarMappable, scale: str) -> None:
    bar = axes.figure.colorbar(shades, ax=axes, fraction=0.05, pad=0.02)
    bar.set_label(scale, fontsize=8)
    bar.ax.tick_params(labelsize=7)


def _short(text: str) -> str:
    return textwrap.shorten(text, LONGEST_LABEL, placeholder=" …")

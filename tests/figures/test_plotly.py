"""Plotly and matplotlib draw the same chart."""

import json

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from deep_interest.figures.chart import PALETTE, Bars, Chart, HeatMap, Line, Panel, Points, VerticalLine
from deep_interest.figures.plotly import plotly_figure
from deep_interest.figures.png import matplotlib_figure

CHART = Chart(
    "Title",
    [
        Panel([Line([0, 1], [2.0, np.nan], "a", lower=[1.0, 2.0], upper=[3.0, 4.0]), VerticalLine(0.5, "half")], title="One",
              x_label="x"),
        Panel([Points([1], [2], "b", color=1, error=[0.1], hover=["point"]), Line([0, 1], [1, 1], "a")], y_ticks=["p", "q", "r"],
              y_reversed=True, right_labels=["1", "2", "3"]),
        Panel([Bars([0, 1], [3, 4], "c")]),
        Panel([HeatMap([[1.0, 2.0], [3.0, 4.0]], "weight")], x_ticks=["u", "v"]),
        Panel([Points([1, 10], [2, 3], "d", color_values=[0.1, 0.9], color_label="CTR")], x_log=True),
    ],
    note="How to read it.", metrics={"share": 0.5}, columns=2,
)  # fmt: skip


def luminance(color):
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("background", ["#ffffff", "#16181d"])
def test_palette_has_contrast_on_light_and_dark_backgrounds(background):
    for color in PALETTE:
        bright, dark = sorted([luminance(color), luminance(background)], reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 3, (color, background)  # WCAG 2.1, graphics


@pytest.mark.slow
def test_plotly_accepts_the_json_of_every_mark():
    import plotly.graph_objects as go

    figure = go.Figure(
        json.loads(json.dumps(plotly_figure(CHART), allow_nan=False))
    )  # validates every property
    assert len(figure.data) == 8
    assert figure.layout.meta["metrics"] == {"share": 0.5}


@pytest.mark.slow
def test_plotly_and_matplotlib_draw_the_same_points():
    drawn, layout = (plotly_figure(CHART)[key] for key in ("data", "layout"))
    axes = matplotlib_figure(CHART).axes
    line = next(trace for trace in drawn if trace["name"] == "a")
    assert line["y"] == [2.0, None]
    assert axes[0].lines[0].get_ydata()[0] == 2.0
    dot = next(trace for trace in drawn if trace["name"] == "b")
    assert (dot["x"], dot["y"], dot["error_x"]["array"]) == ([1.0], [2.0], [0.1])
    assert axes[1].yaxis_inverted() and layout["yaxis2"]["range"] == [2.5, -0.5]
    assert layout["xaxis5"]["type"] == axes[4].get_xscale() == "log"


@pytest.mark.slow
def test_each_name_is_in_the_legend_once():
    traces = plotly_figure(CHART)["data"]
    shown = [trace["name"] for trace in traces if trace["showlegend"]]
    assert sorted(shown) == ["a", "b", "c", "d", "half"]
    labels = [text.get_text() for text in matplotlib_figure(CHART).legends[0].get_texts()]
    assert sorted(labels) == sorted(shown)


@pytest.mark.slow
def test_panels_do_not_overlap():
    layout = plotly_figure(CHART)["layout"]
    boxes = [(layout[f"xaxis{n}"]["domain"], layout[f"yaxis{n}"]["domain"]) for n in ("", 2, 3, 4, 5)]
    for index, (x, y) in enumerate(boxes):
        for other_x, other_y in boxes[:index]:
            assert x[0] >= other_x[1] or other_x[0] >= x[1] or y[0] >= other_y[1] or other_y[0] >= y[1]
    figure = matplotlib_figure(CHART)
    FigureCanvasAgg(figure).draw()
    extents = [axes.get_window_extent() for axes in figure.axes[:5]]
    assert not any(a.overlaps(b) for i, a in enumerate(extents) for b in extents[:i])


def test_an_axis_of_ranks_begins_at_one():
    """A tick at zero would be a rank that no model can have."""
    ranks = Chart(
        "Ranks", [Panel([Line([1, 2], [1, 22], "a"), Line([1, 2], [3, np.nan], "b")], y_reversed=True)]
    )
    axes = matplotlib_figure(ranks).axes[0]
    assert axes.get_ylim() == (22.5, 0.5)
    visible = [tick for tick in axes.get_yticks() if 0.5 <= tick <= 22.5]
    assert len(visible) > 2
    assert all(tick.is_integer() for tick in visible)
    assert plotly_figure(ranks)["layout"]["yaxis"]["range"] == [22.5, 0.5]


def test_a_reversed_axis_without_lines_is_drawn():
    empty = Chart("Ranks", [Panel([], y_reversed=True)])
    assert matplotlib_figure(empty).axes
    assert "range" not in plotly_figure(empty)["layout"]["yaxis"]

"""Labels at points: no label covers another one or a point, on a phone, a large screen and in a PNG."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation, Text

from deep_interest.figures.comparison import speed_chart
from deep_interest.figures.labels import label_offsets, short_label
from deep_interest.figures.plotly import plotly_figure
from deep_interest.figures.plotly_panels import split_panels
from deep_interest.figures.png import matplotlib_figure

CHARACTER, LINE, POINT = 6.8, 14.0, 8.0  # pixels


def models(count: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = [f"Model {'with an option ' * (i % 2)}{i}" for i in range(count)]
    return pd.DataFrame(
        {"model": names, "name": names, "gauc": rng.uniform(0.6, 0.7, count), "samples_per_second": 10 ** rng.uniform(2, 5, count)}
    )  # fmt: skip


def boxes_of(x, y, labels, offsets):
    """Left, top, right and bottom of each label."""
    width = np.array([CHARACTER * len(label) for label in labels])
    x, y = np.array(x) + np.array(offsets)[:, 0], np.array(y) + np.array(offsets)[:, 1]
    return np.stack([x - width / 2, y - LINE / 2, x + width / 2, y + LINE / 2], axis=1)


def overlaps(one, other) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize(("width", "count"), [(270, 12), (560, 26), (1090, 26)])
def test_labels_cover_neither_labels_nor_points_and_stay_in_the_plot(width, count):
    rng = np.random.default_rng(1)
    x, y = rng.uniform(5, width - 5, count).tolist(), rng.uniform(5, 455, count).tolist()
    labels = [short_label(name) for name in models(count)["name"]]
    boxes = boxes_of(x, y, labels, label_offsets(x, y, labels, width=width, height=460))
    assert not any(overlaps(one, other) for one, other in combinations(boxes, 2))
    points = [
        (px - POINT / 2, py - POINT / 2, px + POINT / 2, py + POINT / 2) for px, py in zip(x, y, strict=True)
    ]
    assert not any(overlaps(box, point) for box in boxes for point in points)
    assert boxes.min() >= 0 and boxes[:, 2].max() <= width and boxes[:, 3].max() <= 460


def test_label_of_a_single_point_is_right_next_to_it():
    ((dx, dy),) = label_offsets([100.0], [100.0], ["abcde"], width=400, height=300)
    assert dy == 0
    assert 0 < dx - 5 * CHARACTER / 2 < 10


@pytest.mark.slow
def test_models_are_named_at_their_points_and_not_in_the_legend():
    table = models(26)
    figure = plotly_figure(speed_chart(table, title="Speed"))
    legend = [trace["name"] for trace in figure["data"] if trace["showlegend"]]
    assert legend == ["other models", "no other model is both better and faster"]
    (panel,) = split_panels(figure)
    named = {annotation["text"]: annotation for annotation in panel["layout"]["annotations"]}
    assert set(named) == {short_label(name) for name in table["name"]}
    row = table.iloc[0]
    at = named[short_label(row["name"])]
    assert (at["x"], at["y"]) == pytest.approx((np.log10(row["samples_per_second"]), row["gauc"]))
    assert all(len(offsets) == 26 for offsets in panel["layout"]["meta"]["labels"].values())
    assert {annotation["xref"] for annotation in named.values()} == {"x"}


@pytest.mark.slow
def test_labels_of_the_png_do_not_overlap():
    figure = matplotlib_figure(speed_chart(models(26), title="Speed"))
    FigureCanvasAgg(figure).draw()
    labels = [child for child in figure.axes[0].get_children() if isinstance(child, Annotation)]
    assert len({label.get_text() for label in labels}) == 26
    boxes = [
        Text.get_window_extent(label) for label in labels
    ]  # an annotation's own extent includes its line
    drawn = [(box.x0, box.y0, box.x1, box.y1) for box in boxes]
    assert not any(overlaps(one, other) for one, other in combinations(drawn, 2))

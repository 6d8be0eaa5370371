"""The chart of a results table: what it shows, and that no label overlaps another or is cut."""

import io
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from deep_interest.figures.comparison import results_chart
from deep_interest.figures.png import matplotlib_figure


def results_figure(results, **options):
    return matplotlib_figure(results_chart(results, **options))


def results_of(gauc, *, names=None, seeds=3, oracle=None):
    keys = ["base", *(f"model_{i}" for i in range(1, len(gauc)))]
    frame = pd.DataFrame({"model": keys, "name": names or keys, "gauc": gauc, "seeds": seeds})
    if oracle:
        frame.loc[len(frame)] = ["oracle", "Oracle", oracle, 1]
    return frame.assign(gauc_std=0.01 if seeds > 1 else np.nan)


def legend_labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_dots_show_gauc_with_the_first_model_on_top():
    figure = results_figure(results_of([0.7, 0.75, 0.72]), title="Toys")
    axes = figure.axes[0]
    (dots,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert list(dots.get_xdata()) == [0.7, 0.75, 0.72]
    assert list(dots.get_ydata()) == [0, 1, 2]
    assert axes.yaxis_inverted()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["base", "model_1", "model_2"]


def test_base_and_oracle_are_lines_and_the_oracle_has_no_dot():
    figure = results_figure(
        results_of([0.7, 0.75], names=["BaseModel", "DIN"], oracle=0.8), title="Simulated"
    )
    lines = {line.get_label(): line for line in figure.axes[0].lines if line.get_marker() != "o"}
    assert lines["BaseModel 0.7000"].get_linestyle() == "-"
    assert lines["Oracle 0.8000"].get_linestyle() == "--"
    assert len(figure.axes[0].get_yticklabels()) == 2


def test_table_without_base_and_oracle_has_no_lines():
    results = results_of([0.7, 0.75]).assign(model=["lr", "din"])
    assert legend_labels(results_figure(results, title="Toys")) == ["mean ± std over seeds"]


def test_legend_mentions_a_single_seed():
    assert legend_labels(results_figure(results_of([0.7], seeds=1), title="Toys"))[-1] == "one seed"


@pytest.mark.parametrize("rows", [1, 2, 20])
@pytest.mark.parametrize("name", ["DIN", "A model with an uncommonly long description of its options"])
def test_no_label_is_cut_or_overlaps_another(rows, name):
    results = results_of(
        np.linspace(0.6, 0.8, rows).tolist(), names=[f"{i} {name}" for i in range(rows)], oracle=0.81
    )
    figure = results_figure(results, title="A title that is long enough to need a second line " * 2)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    axes = figure.axes[0]
    labels = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(labels))
    boxes = [*labels, figure.legends[0].get_window_extent(), figure._suptitle.get_window_extent()]
    assert all(box.x0 >= 0 and box.y0 >= 0 for box in boxes)
    assert all(box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height for box in boxes)
    assert figure._suptitle.get_window_extent().y0 >= axes.get_window_extent().y1


def test_chart_can_be_saved_without_a_display():
    stream = io.BytesIO()
    results_figure(results_of([0.7, 0.75]), title="Toys").savefig(stream, format="png")
    assert stream.getvalue().startswith(b"\x89PNG")

"""The chart of a results table: what it shows, and that no label overlaps another or is cut."""

import io
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from deep_interest.figures.comparison import days_chart, results_chart, speed_chart, validation_chart
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


def test_dots_show_gauc_with_the_best_model_on_top():
    figure = results_figure(results_of([0.7, 0.75, 0.72]), title="Toys")
    axes = figure.axes[0]
    (dots,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert list(dots.get_xdata()) == [0.75, 0.72, 0.7]
    assert list(dots.get_ydata()) == [0, 1, 2]
    assert axes.yaxis_inverted()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["model_1", "model_2", "base"]


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


def test_models_that_no_other_beats_in_accuracy_and_speed_are_emphasised():
    results = results_of([0.7, 0.75, 0.72, 0.74]).assign(samples_per_second=[100.0, 10.0, 100.0, 5.0])
    (panel,) = speed_chart(results, title="Toys").panels
    beaten, best = panel.marks
    assert best.labels == ["model_1", "model_2"]  # the best, and the better of the two fastest
    assert beaten.labels == ["base", "model_3"]


def test_models_without_a_speed_are_not_in_the_speed_chart():
    results = results_of([0.7, 0.75]).assign(samples_per_second=[np.nan, 10.0])
    (mark,) = speed_chart(results, title="Toys").panels[0].marks
    assert mark.labels == ["model_1"]


def test_validation_is_next_to_test_with_their_difference_at_the_right():
    results = results_of([0.7, 0.75, 0.72], oracle=0.8).assign(validation_gauc=[0.71, 0.7, np.nan, np.nan])
    (panel,) = validation_chart(results, title="Toys").panels
    validation, test = panel.marks
    assert panel.y_ticks == ["model_1", "base"]
    assert (validation.x, test.x) == ([0.7, 0.71], [0.75, 0.7])
    assert panel.right_labels == ["+0.0500", "-0.0100"]


def test_days_are_drawn_in_order_and_by_split():
    days = pd.DataFrame({
        "day": [3, 4, 6], "date": ["Jan 04", "Jan 05", "Jan 07"], "split": ["train", "train", "test"], "ctr": [0.5, 0.25, 0.1],
        "impressions": [2, 4, 10],
    })  # fmt: skip
    ctr, impressions = days_chart(days, title="Toys").panels
    assert [(line.name, line.x, line.y) for line in ctr.marks] == [
        ("train", [0, 1], [0.5, 0.25]),
        ("test", [2], [0.1]),
    ]
    assert [line.y for line in impressions.marks] == [[2, 4], [10]]
    assert ctr.x_ticks == ["Jan 04", "Jan 05", "Jan 07"]

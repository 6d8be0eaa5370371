import pandas as pd

from deep_interest.figures.curves import curves_chart
from deep_interest.figures.png import matplotlib_figure


def curves_figure(curves):
    return matplotlib_figure(curves_chart(curves))


def curve(*, watched=True, shift=0.0):
    rows = [
        {"seed": seed, "epoch": float(epoch), "train_loss": 0.7 - 0.1 * epoch + 0.02 * seed + shift}
        | ({"test_loss": 0.7, "test_auc": 0.6, "test_gauc": 0.6} if watched else {})
        for seed in (0, 1)
        for epoch in (1, 2, 3)
    ]
    return pd.DataFrame(rows)


def test_each_model_is_a_line_of_means_over_seeds():
    figure = curves_figure({"None": curve(), "MBA": curve(shift=0.1)})
    axes = figure.axes[0]
    assert [a.get_title(loc="left") for a in figure.axes] == [
        "Training loss",
        "Test loss",
        "Test AUC",
        "Test GAUC",
    ]
    assert [line.get_label() for line in axes.lines] == ["None", "MBA"]
    assert [round(y, 6) for y in axes.lines[0].get_ydata()] == [0.61, 0.51, 0.41]
    assert list(axes.lines[0].get_xdata()) == [1, 2, 3]


def test_metric_that_no_model_has_gets_no_panel():
    figure = curves_figure({"None": curve(watched=False)})
    assert [a.get_title(loc="left") for a in figure.axes] == ["Training loss"]


def test_single_seed_has_a_band_of_zero_width():
    one = curve().query("seed == 0")
    axes = curves_figure({"None": one}).axes[0]
    band = {round(y, 6) for y in axes.collections[0].get_paths()[0].vertices[:, 1]}
    assert band == {0.6, 0.5, 0.4}  # the line itself


def test_whole_epochs_have_integer_ticks():
    axes = curves_figure({"None": curve()}).axes[0]
    assert all(tick.is_integer() for tick in axes.get_xticks())
    half = curves_figure({"None": curve().assign(epoch=lambda table: table["epoch"] / 2)}).axes[0]
    assert not all(tick.is_integer() for tick in half.get_xticks())

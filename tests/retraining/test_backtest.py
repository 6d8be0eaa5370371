import pandas as pd
import pytest
from support.days import FEATURES, day_name, write_days

from deep_interest.figures.backtest import backtest_chart
from deep_interest.logs.encoding import FeatureColumns
from deep_interest.logs.protocols import ProtocolParameters
from deep_interest.retraining.backtest import COMPARED, backtest, backtest_page, backtest_summary
from deep_interest.retraining.days import ReaderConfig, read_days
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.sources.tables.declaration import Source
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import Experiment

FILES = ("behaviors", "items", "users", "impressions")
DAYS = [day_name(number) for number in range(5)]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Five days, of which two warm up; 20 users with 6 impressions a day."""
    folder = tmp_path_factory.mktemp("backtest")
    features = FeatureColumns.model_validate(FEATURES)
    source = Source.model_validate({name: {"files": f"{name}.parquet"} for name in FILES})
    reading = ReaderConfig(source, features)
    write_days(folder / "days", range(5), users=20, per_user=6)
    run = RunParameters(device="cpu", processes=1, threads=1)
    recipe = Recipe(training={"batch_size": 16, "epochs": 2}, model={"embedding_dim": 4, "hidden": (8,)})
    retraining = RetrainingParameters(
        warm_training={"epochs": 1}, replay_days=1, window_days=3, warm_rate=2.0
    )
    return backtest(
        lambda days: read_days(folder / "days", days, reading), DAYS, Experiment("shop", "base", RowOptions({}), recipe, (1,), run),
        warm_up=2, seeds=(1,), retraining=retraining, protocol=ProtocolParameters(name="by_day"), features=features,
        workspace=folder,
    )  # fmt: skip


def test_every_strategy_is_evaluated_on_every_day_after_the_warm_up(results):
    assert set(zip(results["day"], results["strategy"], strict=True)) == {
        (day, strategy) for day in DAYS[2:] for strategy in COMPARED
    }


def test_all_ways_begin_with_the_same_model(results):
    first = results[results["day"] == DAYS[2]]
    assert first["gauc"].nunique() == first["logloss"].nunique() == 1


def test_each_way_pays_for_the_samples_it_trains_on(results):
    samples = results.pivot(index="day", columns="strategy", values="samples")
    assert list(samples["frozen"]) == [2 * 2 * 120, 0, 0]
    assert list(samples["full_window"]) == [2 * 2 * 120, 2 * 3 * 120, 2 * 3 * 120]
    for strategy in ("warm_start", "warm_start_with_distillation"):
        assert list(samples[strategy]) == [2 * 2 * 120, 2 * 120, 2 * 120]


def test_the_summary_is_of_the_days_after_the_first():
    rows = [
        (day, strategy, 1, value, 0.5, 1.0, cost, cost / 10)
        for day, values in (("d1", (0.5,) * 4), ("d2", (0.5, 0.7, 0.68, 0.6)), ("d3", (0.4, 0.7, 0.72, 0.6)))
        for strategy, value, cost in zip(COMPARED, values, (0, 100, 20, 25), strict=True)
    ]
    columns = ["day", "strategy", "seed", "gauc", "logloss", "calibration", "samples", "seconds"]
    summary = backtest_summary(pd.DataFrame(rows, columns=columns)).set_index("strategy")
    assert summary.loc["frozen", "to_full_window"] == pytest.approx(-0.25)
    assert summary.loc["warm_start", "to_full_window"] == pytest.approx(0)
    assert summary.loc["warm_start", "standard_error"] == pytest.approx(0.02)
    assert summary.loc["warm_start", "cost"] == pytest.approx(0.2)
    assert summary.loc["warm_start_with_distillation", "sample_cost"] == pytest.approx(0.25)


def test_page_and_plot_name_the_refused_day(results):
    summary, refused = backtest_summary(results), {"2024-03-09": "ctr 1.0000"}
    assert "Excluded by the data checks: 2024-03-09 (ctr 1.0000)" in backtest_page(summary, results, refused)
    by_day, cost = backtest_chart(results, summary, refused).panels
    assert [mark.name for mark in by_day.marks] == [
        *(strategy.replace("_", " ") for strategy in COMPARED),
        "2024-03-09 skipped",
    ]
    assert list(cost.marks[0].lengths) == list(summary["seconds"])

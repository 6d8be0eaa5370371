import numpy as np
import pandas as pd
import pytest
from support.days import FEATURES, day_name, write_days

from deep_interest.evaluation.metrics import gauc, logloss
from deep_interest.figures.backtest import backtest_chart
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.retraining.backtest import COMPARED, backtest, backtest_page, backtest_summary
from deep_interest.retraining.days import ReaderConfig, read_days
from deep_interest.retraining.fitting import fit_challenger, held_out_scores
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.retraining.window import encode_window
from deep_interest.sources.tables.declaration import Source
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters, TrainingOptions
from deep_interest.training.runs import Experiment

FILES = ("behaviors", "items", "users", "impressions")
DAYS = [day_name(number) for number in range(5)]


FEATURE_COLUMNS = FeatureColumns.model_validate(FEATURES)
SOURCE = Source.model_validate({name: {"files": f"{name}.parquet"} for name in FILES})
RECIPE = Recipe(training={"batch_size": 16, "epochs": 2}, model={"embedding_dim": 4, "hidden": (8,)})
RUN = RunParameters(device="cpu", processes=1, threads=1)
EXPERIMENT = Experiment("shop", "base", RowOptions({}), RECIPE, (1,), RUN)
RETRAINING = RetrainingParameters(warm_training={"epochs": 1}, replay_days=1, window_days=3, warm_rate=2.0)
BY_DAY = ProtocolParameters(name="by_day")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five days of 20 users with 6 impressions a day."""
    folder = tmp_path_factory.mktemp("backtest")
    write_days(folder / "days", range(5), users=20, per_user=6)
    return folder


def read(folder, days):
    return read_days(folder / "days", days, ReaderConfig(SOURCE, FEATURE_COLUMNS))


def replay(folder, seeds):
    return backtest(
        lambda days: read(folder, days), DAYS, EXPERIMENT, warm_up=2, seeds=seeds, retraining=RETRAINING, protocol=BY_DAY,
        features=FEATURE_COLUMNS, workspace=folder,
    )  # fmt: skip


@pytest.fixture(scope="module")
def results(folder):
    """The replay with one seed; two days warm up."""
    return replay(folder, (1,))


@pytest.mark.slow
def test_every_strategy_is_evaluated_on_every_day_after_the_warm_up(results):
    assert set(zip(results["day"], results["strategy"], strict=True)) == {
        (day, strategy) for day in DAYS[2:] for strategy in COMPARED
    }


@pytest.mark.slow
def test_all_ways_begin_with_the_same_model(results):
    first = results[results["day"] == DAYS[2]]
    assert first["gauc"].nunique() == first["logloss"].nunique() == 1


@pytest.mark.slow
def test_each_way_pays_for_the_samples_it_trains_on(results):
    samples = results.pivot(index="day", columns="strategy", values="samples")
    assert list(samples["frozen"]) == [2 * 2 * 120, 0, 0]
    assert list(samples["full_window"]) == [2 * 2 * 120, 2 * 3 * 120, 2 * 3 * 120]
    for strategy in ("warm_start", "warm_start_with_distillation"):
        assert list(samples[strategy]) == [2 * 2 * 120, 2 * 120, 2 * 120]
    assert list(samples["full_window"]) == [2 * 2 * 120, 2 * 3 * 120, 2 * 3 * 120]
    assert list(samples["frozen"]) == [2 * 2 * 120, 0, 0]
    seconds = results.pivot(index="day", columns="strategy", values="seconds")
    assert list(seconds["frozen"].iloc[1:]) == [0, 0]


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


@pytest.mark.slow
def test_page_and_plot_name_the_refused_day(results):
    summary, refused = backtest_summary(results), {"2024-03-09": "ctr 1.0000"}
    assert "Excluded by the data checks: 2024-03-09 (ctr 1.0000)" in backtest_page(summary, results, refused)
    by_day, cost = backtest_chart(results, summary, refused).panels
    assert [mark.name for mark in by_day.marks] == [
        *(strategy.replace("_", " ") for strategy in COMPARED),
        "2024-03-09 skipped",
    ]
    assert list(cost.marks[0].lengths) == list(summary["seconds"])


def reference(folder, strategy):
    """The three judged days of one strategy, step by step: ``gauc, logloss, calibration, samples`` of each."""
    rows, fitted, known = [], None, FieldVocabularies()
    for number in range(2, 5):
        log = read(folder, DAYS[: number + 1])  # what was known by the end of the day
        replayed = {2: [0, 1], 3: [1, 2], 4: [2, 3]}[number]  # one replayed day, then the newest
        train = [
            DAYS[k] for k in (range(max(0, number - 3), number) if strategy == "full_window" else replayed)
        ]
        if strategy == "full_window":
            known = FieldVocabularies()
        if strategy == "frozen" and fitted:
            known = FieldVocabularies(known.fields, frozen=True)
        data = encode_window(
            log,
            train=train,
            held_out=DAYS[number],
            protocol=BY_DAY,
            features=FEATURE_COLUMNS,
            vocabularies=known,
        )
        samples = 0
        if strategy != "frozen" or not fitted:
            warm = fitted is not None and strategy.startswith("warm_start")
            fitted = fit_challenger(
                EXPERIMENT, data, overrides={"epochs": 1, "learning_rate": 2 * TrainingOptions().learning_rate} if warm else {}, seed=1,
                state_file=folder / f"reference-{strategy}-{number}.pt", parent=fitted.as_parent() if warm else None,
                teacher_weight=0.5 if warm and strategy.endswith("distillation") else 0.0,
            )  # fmt: skip
            samples = fitted.samples
        scores = held_out_scores(fitted.model("base"), fitted.schema, data, EXPERIMENT, fitted.training)
        held_out = data.samples[data.samples["split"] == "test"]
        labels = held_out["label"].to_numpy()
        judged = (
            gauc(held_out["user"], labels, scores).value,
            logloss(labels, scores),
            scores.mean() / labels.mean(),
        )
        rows.append([*judged, samples])
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("strategy", COMPARED)
def test_a_strategys_metrics_are_those_of_the_same_fits_one_by_one(folder, results, strategy):
    own = results[results["strategy"] == strategy]
    assert own["day"].tolist() == DAYS[2:]
    assert own["seed"].tolist() == [1] * 3
    figures = own[["gauc", "logloss", "calibration", "samples"]].to_numpy()
    np.testing.assert_allclose(figures, reference(folder, strategy), rtol=1e-4)
    spent = (own["seconds"] > 0).tolist()
    assert spent == ([True, False, False] if strategy == "frozen" else [True] * 3)


@pytest.mark.slow
def test_every_seed_has_a_replay_of_its_own(folder, results):
    both = replay(folder, (1, 2))
    assert both["seed"].tolist() == [1] * 12 + [2] * 12
    columns = ["day", "strategy", "gauc", "logloss", "calibration", "samples"]
    first, second = (both.loc[both["seed"] == seed, columns].reset_index(drop=True) for seed in (1, 2))
    pd.testing.assert_frame_equal(first, results[columns], rtol=1e-4)
    assert (first["logloss"] != second["logloss"]).all()
    assert second.loc[second["day"] == DAYS[2], "logloss"].nunique() == 1


def test_every_column_of_the_summary_and_every_line_of_the_page_by_hand():
    """Two days after the first and two seeds; the full window's GAUC is .7, and each strategy is off by the same each time."""
    gains = dict(zip(COMPARED, (-0.1, 0.0, 0.02, 0.03), strict=True))
    rows = [
        (day, strategy, seed, 0.9 if day == "d1" else 0.7 + gains[strategy] + 0.01 * (strategy == "frozen") * (-1) ** (seed + (day == "d2")),
         0.4 + gains[strategy], 1 + gains[strategy], 1_000 * (k + 1), 0.5 * (k + 1))
        for day in ("d1", "d2", "d3") for seed in (1, 2) for k, strategy in enumerate(COMPARED)
    ]  # fmt: skip
    results = pd.DataFrame(
        rows, columns=["day", "strategy", "seed", "gauc", "logloss", "calibration", "samples", "seconds"]
    )
    summary = backtest_summary(results)
    error = np.std([0.01, -0.01, -0.01, 0.01], ddof=1) / 2
    expected = pd.DataFrame({
        "strategy": COMPARED, "gauc": [0.6, 0.7, 0.72, 0.73], "to_full_window": [-0.1, 0, 0.02, 0.03], "standard_error": [error, 0, 0, 0],
        "logloss": [0.3, 0.4, 0.42, 0.43], "calibration": [0.9, 1, 1.02, 1.03], "samples": [1e3, 2e3, 3e3, 4e3],
        "seconds": [0.5, 1, 1.5, 2], "cost": [0.5, 1, 1.5, 2], "sample_cost": [0.5, 1, 1.5, 2],
    })  # fmt: skip
    pd.testing.assert_frame_equal(summary, expected, atol=1e-9)
    lines = backtest_page(summary, results, {"d4": "too few", "d5": "no file"}).split("\n")
    assert lines[2].startswith("3 days from d1 to d3, 2 seeds;")
    assert lines[6:10] == [
        f"| frozen | 0.6000 | -0.1000 ± {error:.4f} | 0.3000 | 0.900 | 1,000 | 0.50 | 50.0% |",
        "| full window | 0.7000 | – | 0.4000 | 1.000 | 2,000 | 1.00 | 100.0% |",
        "| warm start | 0.7200 | +0.0200 ± 0.0000 | 0.4200 | 1.020 | 3,000 | 1.50 | 150.0% |",
        "| warm start with distillation | 0.7300 | +0.0300 ± 0.0000 | 0.4300 | 1.030 | 4,000 | 2.00 | 200.0% |",
    ]
    assert [len(lines[k]) == 0 for k in (1, 3, 10, 12, -1)] == [True] * 5
    assert [line.split(": ")[1] for line in lines[13:15]] == ["d4 (too few).", "d5 (no file)."]
    assert len(lines) == 16


@pytest.mark.slow
def test_only_distillation_learns_from_a_teacher_and_only_warm_starts_have_a_parent(folder, monkeypatch):
    calls = {}

    def record(*arguments, parent, teacher_weight, state_file, **options):
        calls.setdefault(state_file.stem, []).append((parent is not None, teacher_weight))
        return fit_challenger(
            *arguments, parent=parent, teacher_weight=teacher_weight, state_file=state_file, **options
        )

    monkeypatch.setattr("deep_interest.retraining.backtest.fit_challenger", record)
    replay(folder, (1,))
    weight = RETRAINING.teacher_weight
    assert calls == {
        "frozen": [(False, 0.0)],
        "full_window": [(False, 0.0)] * 2,
        "warm_start": [(True, 0.0)] * 2,
        "warm_start_with_distillation": [(True, weight)] * 2,
    }

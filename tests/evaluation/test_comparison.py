"""The table for four test samples, two users and three models; every value is computed by hand."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from deep_interest.errors import InputError
from deep_interest.evaluation.comparison import ModelRuns, compare
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.evaluation.significance import holm

COLUMNS = [
    *("model", "name", "gauc", "gauc_std", "auc", "auc_std", "logloss", "rela_impr", "user_coverage"),
    *("impression_coverage", "seeds", "validation_gauc"),
    *("difference", "difference_low", "difference_high", "p_value", "p_holm"),
    *(
        "second",
        "second_difference",
        "second_difference_low",
        "second_difference_high",
        "second_p_value",
        "second_p_holm",
    ),
    *("train_seconds", "samples_per_second"),
    *("gauc_low", "gauc_high", "seed_variance", "interval_note", "second_interval_note"),
]
ANY = EvaluationParameters(minimum_users=2, minimum_positives=1)
T_ONE_DF = 12.7062047364  # 97.5 % quantile of Student's t with one degree of freedom


def four_rows():
    return pd.DataFrame({"user": [1, 1, 2, 2], "label": [0, 1, 0, 1]})


def runs_of(name, *probabilities, seconds=None, **facts):
    seeds = len(probabilities)
    return ModelRuns(
        name=name,
        seeds=tuple(range(seeds)),
        probabilities=np.array(probabilities, dtype=np.float32),
        train_seconds=np.array(seconds or [1.0] * seeds),
        samples_per_second=np.full(seeds, 100.0),
        **facts,
    )


def fixed(model):
    return replace(model, deterministic=True)


LR = runs_of("LR", [0.5, 0.5, 0.5, 0.5])  # knows nothing: user AUCs .5 and .5
BASE = runs_of("BaseModel", [0.2, 0.6, 0.5, 0.5])  # user AUCs 1 and .5
DIN = runs_of("DIN", [0.1, 0.9, 0.3, 0.8], [0.1, 0.9, 0.8, 0.3], seconds=[2, 4])  # seeds: 1 and 1, 1 and 0
BETTER = runs_of("Better", [0.1, 0.9, 0.3, 0.8])  # user AUCs 1 and 1


def compared(runs, test=None, **options):
    results = compare(four_rows() if test is None else test, runs, minimum=ANY, **options)
    return results.set_index("model", drop=False)


def test_a_search_of_some_models_adds_a_column():
    results = compared({"din": replace(DIN, searched=True), "lr": LR, "base": BASE})
    assert results.columns.tolist() == [*COLUMNS, "searched"]
    assert results["searched"].tolist() == [True, False, False]


def test_columns_and_rows_keep_their_order():
    results = compared({"din": DIN, "lr": LR, "base": BASE})
    assert results.columns.tolist() == COLUMNS
    assert results["name"].tolist() == ["DIN", "LR", "BaseModel"]


def test_metrics_are_means_over_seeds_with_their_sample_deviation():
    row = compared({"base": BASE, "din": DIN}).loc["din"]
    assert row["gauc"] == pytest.approx((1 + 0.5) / 2)
    assert row["gauc_std"] == pytest.approx(math.sqrt(2 * 0.25**2 / 1))
    # AUC over all rows, second seed: positives .9 and .3 against .1 and .8 win three of four pairs.
    assert row["auc"] == pytest.approx((1 + 0.75) / 2)
    assert row["auc_std"] == pytest.approx(math.sqrt(2 * 0.125**2 / 1))
    first = math.log(0.9) + math.log(0.9) + math.log(0.7) + math.log(0.8)
    second = math.log(0.9) + math.log(0.9) + math.log(0.2) + math.log(0.3)
    assert row["logloss"] == pytest.approx(-(first + second) / 8, rel=1e-6)
    assert (row["seeds"], row["train_seconds"], row["samples_per_second"]) == (2, 3, 100)


def test_one_seed_has_no_deviation():
    row = compared({"base": BASE}).loc["base"]
    assert (row["gauc"], row["auc"], row["seeds"]) == (0.75, 0.875, 1)
    assert row[["gauc_std", "auc_std"]].isna().all()


def six_rows():
    return pd.DataFrame({"user": [1, 1, 1, 2, 2, 2], "label": [0, 0, 1, 0, 0, 1]})


EVEN = {  # every user has the same AUC: .5, .75 (one win, one tie), 1
    "lr": fixed(runs_of("LR", [0.5] * 6)),
    "base": fixed(runs_of("BaseModel", [0.2, 0.6, 0.6] * 2)),
    "better": fixed(runs_of("Better", [0.1, 0.2, 0.9] * 2)),
}


def test_models_are_compared_with_the_base():
    results = compared(EVEN, six_rows())
    assert results["rela_impr"].tolist() == pytest.approx([-100, 0, 100])
    # No variance over users nor seeds: the interval is the difference.
    ends = results.loc[["lr", "better"], ["difference", "difference_low", "difference_high"]]
    np.testing.assert_allclose(ends, [[-0.25] * 3, [0.25] * 3])


def test_rela_impr_is_empty_where_the_bases_interval_includes_one_half():
    # BaseModel's user AUCs are 1 and .5: .75 ± 12.7 × .25.
    results = compared({"lr": fixed(LR), "base": fixed(BASE)})
    half = T_ONE_DF * 0.25
    base = results.loc["base"]
    assert (base["gauc_low"], base["gauc_high"]) == pytest.approx((0.75 - half, 0.75 + half))
    assert results["rela_impr"].isna().all()


def test_too_few_users_give_a_difference_but_no_interval_and_no_p_value():
    minimum = EvaluationParameters(minimum_users=3, minimum_positives=2)
    results = compare(six_rows(), EVEN, minimum=minimum).set_index("model")
    lr = results.loc["lr"]
    assert lr["difference"] == -0.25
    assert (
        lr[["difference_low", "difference_high", "p_value", "p_holm", "gauc_low", "rela_impr"]].isna().all()
    )
    assert lr["interval_note"] == (
        "the test set has only 2 users with both classes (at least 3 are needed: evaluation.minimum_users)"
    )


def test_too_few_positives_are_refused_as_well():
    results = compare(six_rows(), EVEN, minimum=EvaluationParameters(minimum_users=2, minimum_positives=3))
    assert results["difference_low"].isna().all()
    assert "2 positive samples of such users (at least 3" in results["interval_note"].iloc[0]


def test_the_default_minimum_refuses_one_user_with_both_classes():
    """The case of the audit: a star and a verdict from one user with both classes."""
    test = pd.DataFrame({"user": [1, 1, 2, 3], "label": [0, 1, 1, 1]})
    runs = {"base": runs_of("BaseModel", [0.6, 0.5, 0, 0]), "din": runs_of("DIN", [0.1, 0.9, 0, 0])}
    din = compare(test, runs).set_index("model").loc["din"]
    assert din["difference"] == 1
    assert din[["difference_low", "difference_high", "p_value", "rela_impr"]].isna().all()


def test_one_seed_of_a_random_model_gives_an_interval_over_users_and_no_p_value():
    results = compared({"lr": LR, "base": BASE, "din": fixed(BETTER)})
    assert results.loc[["lr", "din"], ["p_value", "p_holm"]].isna().all(axis=None)
    assert results.loc["lr", "difference_low"] == pytest.approx(-0.25 - T_ONE_DF * 0.25)
    assert results.loc["lr", "interval_note"] == "over users only: LR and BaseModel have one seed"
    assert results.loc["din", "interval_note"] == "over users only: BaseModel has one seed"


def test_the_variance_over_seeds_widens_the_interval():
    """Four users of equal AUC: a seed moves all of them, so users alone would give an interval of width 0."""
    test = pd.DataFrame({"user": np.repeat([1, 2, 3, 4], 3), "label": [0, 0, 1] * 4})
    tie, win, lose = [0.2, 0.6, 0.6], [0.1, 0.2, 0.9], [0.9, 0.1, 0.5]  # AUC .75, 1 and .5
    flat = np.array([tie * 4, [*tie, *tie, *win, *lose]])  # the second fit moves two users by +.25 and -.25
    moved = np.array([win * 4, [*lose, *lose, *tie, *lose]])  # GAUC 1 and .5625
    runs = {"base": runs_of("BaseModel", *flat), "din": runs_of("DIN", *moved)}
    din = compared(runs, test).loc["din"]
    # DIN: variance of the GAUC .4375² / 2; second minus first fit is -.5, -.5, -.25, -.5, mean -.4375: half of the centred
    # squares (.0625² × 3 + .1875²) / 2, over 4² × 3/4 = 12: interaction .00195. BaseModel: variance 0, half of
    # (.25² + .25²) over 12: .00521. Users: differences 0, 0, 0, .125 vary less than that: no effects of the models.
    assert din["seed_variance"] == pytest.approx(0.4375**2 / 2)
    share = 0.001953125 / (0.001953125 + 0.0625 / 12)
    half = stats.t.ppf(0.975, 1 / (share**2 + (1 - share) ** 2)) * (0.4375**2 / 2 / 2) ** 0.5
    assert (din["difference_low"], din["difference_high"]) == pytest.approx((0.03125 - half, 0.03125 + half))


def test_other_models_of_the_table_leave_an_interval_unchanged():
    """An unstable model in the table says nothing about the seeds of the others."""
    rng = np.random.default_rng(2)
    test = pd.DataFrame({"user": np.repeat(np.arange(20), 4), "label": [0, 1, 0, 1] * 20})
    runs = {key: runs_of(key, *rng.random((2, 80))) for key in ("base", "din", "lr")}
    unstable = runs_of("Unstable", test["label"], 1 - test["label"])
    alone, together = compared(runs, test), compared({**runs, "unstable": unstable}, test)
    columns = ["difference_low", "difference_high", "p_value", "seed_variance"]
    pd.testing.assert_frame_equal(together.loc[["din", "lr"], columns], alone.loc[["din", "lr"], columns])


def test_the_interval_of_two_users_by_hand():
    results = compared({"lr": fixed(LR), "base": fixed(BASE)})
    lr = results.loc["lr"]
    # Per user LR loses .5 and 0: mean -.25, standard error of the mean of two values half of their distance.
    half = T_ONE_DF * 0.25
    assert lr["difference"] == -0.25
    assert (lr["difference_low"], lr["difference_high"]) == pytest.approx((-0.25 - half, -0.25 + half))
    # Student's t of 1 with one degree of freedom is Cauchy: two-sided p is 1/2.
    assert (lr["p_value"], lr["p_holm"]) == pytest.approx((0.5, 0.5))


def test_the_base_is_not_compared_with_itself():
    row = compared(EVEN, six_rows()).loc["base"]
    assert row["rela_impr"] == 0
    assert row[["difference", "difference_low", "difference_high", "p_value"]].isna().all()


def test_a_model_equal_to_the_base_shows_no_difference():
    row = compared({"base": fixed(BASE), "din": fixed(replace(BASE, name="DIN"))}).loc["din"]
    assert (row["difference"], row["difference_low"], row["difference_high"], row["p_value"]) == (0, 0, 0, 1)


def test_without_the_base_there_is_nothing_to_compare_with():
    results = compared({"lr": LR, "din": DIN})
    assert (
        results[["rela_impr", "difference", "difference_low", "difference_high", "p_value"]]
        .isna()
        .all(axis=None)
    )
    assert results.columns.tolist() == COLUMNS


def test_the_best_baseline_is_the_one_that_validates_best():
    runs = {
        "base": replace(BASE, baseline=True, validation_gauc=0.6),
        "lr": replace(LR, baseline=True, validation_gauc=0.7),  # the worse one on the test set
        "better": replace(BETTER, validation_gauc=0.9),
    }
    results = compared(runs)
    assert set(results["second"]) == {"lr"}
    assert results["second_difference"].tolist() == pytest.approx([0.25, math.nan, 0.5], nan_ok=True)
    assert results["validation_gauc"].tolist() == [0.6, 0.7, 0.9]


def test_another_second_row_can_be_named():
    results = compared({"base": BASE, "lr": replace(LR, baseline=True), "better": BETTER}, second="better")
    assert set(results["second"]) == {"better"}
    assert results.loc["base", "second_difference"] == -0.25


def test_without_a_validated_baseline_there_is_no_best_one():
    results = compared({"base": replace(BASE, baseline=True), "better": replace(BETTER, validation_gauc=0.9)})
    assert results["second"].isna().all()
    assert results["second_difference"].isna().all()


def test_p_values_are_corrected_for_all_models_and_not_for_the_oracle():
    test = four_rows().assign(true_probability=[0.1, 0.9, 0.2, 0.8])
    results = compared({"lr": fixed(LR), "base": fixed(BASE), "better": fixed(BETTER)}, test)
    models = results.loc[["lr", "better"]]
    np.testing.assert_allclose(models["p_holm"], holm(models["p_value"]))
    assert results.loc[["base", "oracle"], "p_holm"].isna().all()


def test_another_base_can_be_named():
    results = compared({"base": EVEN["base"], "better": EVEN["better"]}, six_rows(), base="better")
    assert results.loc["base", "rela_impr"] == pytest.approx(-50)
    assert results.loc["base", "difference"] == -0.25


def test_coverage_counts_users_and_rows_with_both_classes():
    test = pd.DataFrame({"user": [1, 1, 1, 2, 2], "label": [0, 1, 1, 0, 0]})
    row = compared({"base": runs_of("BaseModel", [0.1, 0.2, 0.3, 0.4, 0.5])}, test).loc["base"]
    assert (row["gauc"], row["user_coverage"], row["impression_coverage"]) == (1.0, 0.5, 0.6)


def test_true_probabilities_add_the_oracle_last_and_each_rows_share_of_its_gain():
    test = six_rows().assign(true_probability=[0.1, 0.1, 0.9, 0.2, 0.2, 0.8])
    results = compared(EVEN, test)
    assert results["model"].tolist() == ["lr", "base", "better", "oracle"]
    assert results["oracle_share"].tolist() == pytest.approx([0, 0.5, 1, 1])
    oracle = results.loc["oracle"]
    assert (oracle["name"], oracle["gauc"], oracle["rela_impr"]) == ("Oracle (true probability)", 1.0, 100)
    assert oracle["logloss"] == pytest.approx(-(3 * math.log(0.9) + 3 * math.log(0.8)) / 6)
    assert oracle[["gauc_std", "train_seconds", "samples_per_second"]].isna().all()
    share = COLUMNS.index("train_seconds")
    assert results.columns.tolist() == [*COLUMNS[:share], "oracle_share", *COLUMNS[share:]]


def test_an_oracle_no_better_than_chance_leaves_the_share_empty():
    test = four_rows().assign(true_probability=0.5)
    assert compared({"base": BASE}, test)["oracle_share"].isna().all()


def test_two_comparisons_of_one_seed_are_equal():
    runs = {"lr": LR, "base": BASE, "better": BETTER}
    pd.testing.assert_frame_equal(compared(runs), compared(runs), check_exact=True)


def test_a_diverged_model_is_named():
    broken = runs_of("DIN", [0.1, math.nan, 0.3, 0.8])
    with pytest.raises(InputError, match=r"model din: scores: 1 of 4 rows are not finite"):
        compared({"base": BASE, "din": broken})


def test_answers_to_other_test_rows_are_refused():
    with pytest.raises(
        InputError, match=r"model din: found probabilities of shape \(1, 2\), expected \(1, 4\)"
    ):
        compared({"din": runs_of("DIN", [0.1, 0.2])})


def test_a_model_without_runs_is_refused():
    with pytest.raises(InputError, match=r"model din: .*at least one"):
        compared({"din": ModelRuns("DIN", (), np.empty((0, 4)), np.empty(0), np.empty(0))})


def test_timings_of_another_number_of_seeds_are_refused():
    with pytest.raises(
        InputError, match=r"model din: found train_seconds of shape \(2,\), expected .* \(1,\)"
    ):
        compared({"din": runs_of("DIN", [0.1, 0.2, 0.3, 0.4], seconds=[1, 2])})


def test_missing_columns_are_named():
    with pytest.raises(
        InputError, match="test samples: column label not found among user; expected user and label"
    ):
        compare(four_rows()[["user"]], {"base": BASE})

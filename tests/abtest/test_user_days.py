"""The log as arrays, and lifts by day and by days since the first exposure, next to plain computations with pandas."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_interest.abtest import METRICS, Moments, UserDays, by_group, novelty_slope
from deep_interest.errors import InputError

ARMS = ("base", "din")


def random_rows(seed: int, users: int = 400, days: int = 6) -> pd.DataFrame:
    """Rows of a log; users come on some days, several rows on a day."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"user": rng.integers(0, users, 8 * users)})
    rows["arm"] = np.array(ARMS)[rows["user"] % 2]
    rows["day"] = 100 + np.minimum(rows["user"] // 2 % days + rng.integers(0, days, len(rows)), days - 1)
    rows["impressions"] = 1.0 + rng.poisson(3, len(rows))
    rows["clicks"] = rng.binomial(rows["impressions"].astype(int), 0.3 + 0.1 * (rows["arm"] == "din")).astype(
        float
    )
    rows["revenue"] = rows["clicks"] * rng.gamma(2, 1, len(rows))
    return rows


def log_of(rows: pd.DataFrame, **options) -> UserDays:
    values = rows[["impressions", "clicks", "revenue"]].to_numpy()
    return UserDays.of(rows["user"], rows["arm"], rows["day"], values, arm_names=ARMS, **options)


def test_the_sums_up_to_a_day_are_those_of_its_users():
    rows = random_rows(0)
    for day, moments in log_of(rows).moments_by_day():
        so_far = rows[rows["day"] <= day]
        for arm in ARMS:
            sums = so_far[so_far["arm"] == arm].groupby("user")[["impressions", "clicks", "revenue"]].sum()
            assert moments[arm].users == len(sums)
            assert moments[arm].mean == pytest.approx(sums.mean().to_numpy())
            assert moments[arm].covariance == pytest.approx(sums.cov().to_numpy())


@pytest.mark.slow
@given(st.integers(0, 100))
def test_the_order_and_the_granularity_of_the_rows_do_not_matter(seed):
    rows = random_rows(1, users=30)
    halves = pd.concat([rows, rows])
    halves[["impressions", "clicks", "revenue"]] /= 2
    shuffled = halves.sample(frac=1, random_state=seed)
    before, after = log_of(rows).moments(), log_of(shuffled).moments()
    for arm in ARMS:
        assert before[arm].mean == pytest.approx(after[arm].mean)
        assert before[arm].covariance == pytest.approx(after[arm].covariance)


def test_users_in_two_arms_are_counted_and_left_out():
    rows = random_rows(2)
    moved = rows.assign(arm=np.where((rows["user"] < 10) & (rows["day"] > 103), "din", rows["arm"]))
    switched = moved.groupby("user")["arm"].nunique()
    log, alone = log_of(moved), log_of(moved[~moved["user"].isin(switched.index[switched > 1])])
    assert log.in_two_arms == (switched > 1).sum() > 0
    assert log.users_of("base") == alone.users_of("base")
    assert log.moments()["base"].mean == pytest.approx(alone.moments()["base"].mean)


def test_the_pre_period_is_that_of_the_users_of_the_test():
    rows = random_rows(3, users=20)
    before = (np.array([3, 3, 5, 999]), np.array([[4, 1, 1], [6, 3, 0], [9, 0, 0], [50, 50, 50]], float))
    log = log_of(rows, pre_period=before)
    users = np.unique(rows["user"])
    assert log.pre_period[users == 3].tolist() == [[10, 4, 1]]
    assert log.pre_period[users == 5].tolist() == [[9, 0, 0]]
    assert log.pre_period.sum() == 10 + 4 + 1 + 9
    assert log.covariates[users == 3].tolist() == [pytest.approx([10, 4, 1, 10**0.5, 2, 1, 0])]
    assert log.covariates[users == 4].tolist() == [[0, 0, 0, 0, 0, 0, 1]]
    assert log_of(rows).covariates is None


@pytest.mark.parametrize("metric", METRICS)
def test_the_lift_of_a_day_is_that_of_its_users_alone(metric):
    rows = random_rows(4)
    series = by_group(log_of(rows), METRICS[metric], "din", "base")
    clicking = rows[rows["clicks"] > 0].groupby(["day", "arm"])["user"].nunique().unstack().min(axis=1)
    assert series.groups.tolist() == clicking.index[clicking >= 30].tolist() == [*range(101, 106)]
    for day, difference, variance in zip(series.groups, series.difference, series.variance, strict=True):
        arms = [
            Moments.of(rows[(rows["day"] == day) & (rows["arm"] == arm)].groupby("user")[["impressions", "clicks", "revenue"]].sum())
            for arm in ("din", "base")
        ]  # fmt: skip
        of = METRICS[metric]
        assert difference == pytest.approx(np.log(arms[0].ratio(of) / arms[1].ratio(of)))
        expected = sum(
            arm.gradient(of) @ arm.covariance @ arm.gradient(of) * (arm.users - 1) / arm.users**2
            for arm in arms
        )
        assert variance == pytest.approx(expected)


def test_metrics_per_user_count_users_who_did_not_come_back():
    rows = random_rows(5)
    first = rows.groupby("user")["day"].transform("min")
    series = by_group(log_of(rows), METRICS["clicks_per_user"], "din", "base", since_first=True)
    users = rows.drop_duplicates("user").assign(first=first)
    for group, difference in zip(series.groups, series.difference, strict=True):
        means = []
        for arm in ("din", "base"):
            clicks = rows.loc[(rows["arm"] == arm) & (rows["day"] - first == group), "clicks"].sum()
            means.append(clicks / ((users["arm"] == arm) & (users["first"] + group <= 105)).sum())
        assert difference == pytest.approx(np.log(means[0] / means[1]))


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["ctr", "clicks_per_user"])
def test_the_slope_is_a_regression_with_the_variance_of_a_bootstrap(metric):
    rows = random_rows(6, users=300, days=5)
    log = log_of(rows)
    found = novelty_slope(log, METRICS[metric], "din", "base")
    series = by_group(log, METRICS[metric], "din", "base", since_first=True)
    tenure = log.days - log.first_day[log.users]
    weights = np.bincount(tenure[log.values[:, 1] > 0])[series.groups]
    slope, level = np.polyfit(series.groups, series.difference, 1, w=np.sqrt(weights))
    assert found.per_day == pytest.approx(slope)
    assert (found.first, found.last) == pytest.approx(tuple(np.expm1(level + slope * series.groups[[0, -1]])))
    rng, by_user, slopes = np.random.default_rng(0), list(rows.groupby("user").indices.values()), []
    for _ in range(150):
        drawn = [by_user[user] for user in rng.integers(0, len(by_user), len(by_user))]
        again = rows.iloc[np.concatenate(drawn)].assign(
            user=np.repeat(np.arange(len(drawn)), [*map(len, drawn)])
        )
        slopes.append(novelty_slope(log_of(again), METRICS[metric], "din", "base").per_day)
    assert (found.high - found.low) / 3.92 == pytest.approx(np.std(slopes), rel=0.2)


def test_a_lift_that_fades_has_a_falling_slope():
    rows = random_rows(7, users=2000)
    first = rows.groupby("user")["day"].transform("min")
    fades = (rows["arm"] == "din") * np.exp(-(rows["day"] - first) / 2.0)
    rng = np.random.default_rng(0)
    rows["clicks"] = rng.binomial(rows["impressions"].astype(int), 0.2 * (1 + fades)).astype(float)
    found = novelty_slope(log_of(rows), METRICS["ctr"], "din", "base")
    assert found.high < 0
    assert found.first > found.last
    assert found.p_value < 1e-6


def test_too_few_days_have_no_slope():
    rows = random_rows(8, days=2)
    found = novelty_slope(log_of(rows), METRICS["ctr"], "din", "base")
    assert np.isnan(found.per_day)


def test_invalid_logs_are_refused():
    rows = random_rows(9, users=5)
    with pytest.raises(InputError, match="arms: found 'dinn', expected one of base, din"):
        log_of(rows.assign(arm="dinn"))
    with pytest.raises(InputError, match=r"values: found clicks of -1\.0 in row 2"):
        log_of(rows.assign(clicks=np.where(np.arange(len(rows)) == 2, -1, 1)))
    with pytest.raises(InputError, match="values: found an array of shape"):
        UserDays.of([1], ["din"], [0], [[1, 2]], arm_names=ARMS)
    with pytest.raises(InputError, match="expected equally many"):
        UserDays.of([1], ["din", "base"], [0], [[1, 2, 3]], arm_names=ARMS)

"""What a simulated test found, and what only the simulator knows: the true lift, interference between arms, and the regret."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import ndtri

from deep_interest.abtest.lift import LEVEL, Lift
from deep_interest.abtest.metrics import METRICS, QUANTITIES
from deep_interest.abtest.parameters import ABTestParameters
from deep_interest.abtest.readout import read_out
from deep_interest.abtest.user_days import UserDays
from deep_interest.closed_loop.log import WorldLog
from deep_interest.closed_loop.rankers import Popularity
from deep_interest.retraining.days import day_number
from deep_interest.simulation.shop_parameters import PhaseParameters

EXPECTED = ("impressions", "expected_clicks", "expected_revenue")
"""Sums whose ratios are the expected values of the metrics, in the order of `QUANTITIES`."""
PAPER_METRICS = ("ctr", "pay_per_click", "rpm")
"""Metrics in DIEN's Table 5: CTR gain, PPC gain, eCPM gain."""
PUBLISHED = {
    "din": {"ctr": 0.089, "pay_per_click": -0.020, "rpm": 0.067},
    "dien": {"ctr": 0.207, "pay_per_click": -0.030, "rpm": 0.171},
}
"""Gains over BaseModel in DIEN's Table 5, by model."""
PUBLISHED_DIN = {"ctr": 0.100, "rpm": 0.038}
"""Gains of DIN over BaseModel in the A/B test of DIN, section 6."""
_TRUTH = (
    "metric", "arm", "true_lift", "true_low", "true_high", "interference", "interference_low", "interference_high",
)  # fmt: skip


def user_days(
    exposures: pd.DataFrame, arms: Sequence[str], pre_period: pd.DataFrame | None = None
) -> UserDays:
    """Return the log of a test from sums by user and day.

    Args:
        exposures: columns ``user``, ``arm``, ``day`` and `QUANTITIES`.
        arms: names of all arms.
        pre_period: the same of the days before; None without a pre-period.
    """
    quantities = list(QUANTITIES)
    before = None
    if pre_period is not None and len(pre_period):
        before = (pre_period["user"].to_numpy(), pre_period[quantities].to_numpy(np.float64))
    return UserDays.of(
        exposures["user"].to_numpy(), exposures["arm"].to_numpy().astype(str), exposures["day"].to_numpy(),
        exposures[quantities].to_numpy(np.float64), arm_names=list(arms), pre_period=before,
    )  # fmt: skip


def aa_results(
    before: pd.DataFrame, log: WorldLog, phases: PhaseParameters, parameters: ABTestParameters
) -> pd.DataFrame:
    """Return `Readout.results` of the A/A test, with the warm-up as its pre-period; without rows if it has no days.

    Args:
        before: sums by user and day on the days of warm-up and A/A test.
        log: log of the world.
        phases: number of days of each phase.
        parameters: parameters of the test.
    """
    if not phases.aa:
        return pd.DataFrame(columns=["metric", "arm", "lift", "low", "high", "p_holm", "variance_removed"])
    is_aa = before["day"] >= day_number(log.name(phases.warm_up))
    days = user_days(before[is_aa], list(parameters.split), before[~is_aa])
    found = read_out(
        days, control=parameters.control, split=parameters.split, expected_lift=parameters.expected_lift
    )
    return found.results


def regret_table(exposures: pd.DataFrame, served: pd.DataFrame) -> pd.DataFrame:
    """Compare what each arm showed with what the oracle would have shown in the same visits, with the same histories.

    Args:
        exposures: sums by user and day of `closed_loop.log`.
        served: number of impressions by arm and version, see `WorldLog.served`.

    Returns:
        A row for each arm: ``arm``; ``ctr`` and ``oracle_ctr``, ``rpm`` and ``oracle_rpm`` (expected values); ``ctr_regret``,
        ``rpm_regret`` and ``value_regret``: the share of the oracle's expected clicks, revenue, and clicks × bids that is lost;
        ``versions``: number of versions that ranked; ``fallback``: share of the impressions that popularity ranked.
    """
    sums = exposures.groupby("arm").sum(numeric_only=True)
    table = pd.DataFrame(
        {
            "ctr": sums["expected_clicks"] / sums["impressions"],
            "oracle_ctr": sums["oracle_clicks"] / sums["impressions"],
            "rpm": 1000 * sums["expected_revenue"] / sums["impressions"],
            "oracle_rpm": 1000 * sums["oracle_revenue"] / sums["impressions"],
            "ctr_regret": 1 - sums["expected_clicks"] / sums["oracle_clicks"],
            "rpm_regret": 1 - sums["expected_revenue"] / sums["oracle_revenue"],
            "value_regret": 1 - sums["value"] / sums["oracle_value"],
        }
    )
    by_arm = served.groupby("arm")["impressions"].sum()
    is_fallback = served["version"] == Popularity.version
    table["versions"] = served[~is_fallback].groupby("arm").size().reindex(table.index, fill_value=0)
    table["fallback"] = (
        served[is_fallback].groupby("arm")["impressions"].sum().reindex(table.index, fill_value=0) / by_arm
    )
    return table.reset_index()


def paired_lift(treated: pd.DataFrame, control: pd.DataFrame, metric: str) -> Lift:
    """Return the lift between two worlds for the same users, with its interval over users.

    The same users visit at the same times with the same candidates in both worlds, so the difference of the contributions of a user to
    the logarithms of the two ratios has a small variance.

    Args:
        treated: sums by user, with the columns `EXPECTED`, in the one world; the index is the user.
        control: the same in the other world.
        metric: key in `abtest.METRICS`.
    """
    users = treated.index.intersection(control.index)
    contributions, logs = [], []
    for world in (treated, control):
        values = world.loc[users, list(EXPECTED)].to_numpy(np.float64)
        y, x = values[:, METRICS[metric].y], _denominator(values, metric)
        logs.append(np.log(y.sum() / x.sum()))
        contributions.append(y / y.mean() - x / x.mean())
    difference = contributions[0] - contributions[1]
    error = float(difference.std(ddof=1) / len(users) ** 0.5)
    low_tail = float(ndtri(1 - LEVEL / 2))
    return Lift.from_log(float(logs[0] - logs[1]), low_tail * error, float("nan"))


def _denominator(values: np.ndarray, metric: str) -> np.ndarray:
    column = METRICS[metric].x
    return np.ones(len(values)) if column is None else values[:, column]


def truth_table(test: pd.DataFrame, worlds: Mapping[str, pd.DataFrame], *, control: str) -> pd.DataFrame:
    """Compare the test with the worlds in which all users are in one arm.

    Args:
        test: sums by user and day in the test.
        worlds: the same by arm, in the world with all users in the arm.
        control: name of the control.

    Returns:
        A row for each metric of DIEN's Table 5 and arm: ``metric``, ``arm``; ``true_lift`` with ``true_low`` and ``true_high``: of the
        world of the arm over that of the control; ``interference`` with ``interference_low`` and ``interference_high``: the users
        of the arm in the test over the same users in the world of the arm. All are of expected clicks and revenue, so that the draw of
        clicks adds no noise.
    """
    by_user = {arm: _by_user(world) for arm, world in worlds.items()}
    rows = []
    for metric in PAPER_METRICS:
        for arm, world in by_user.items():
            true = (
                paired_lift(world, by_user[control], metric) if arm != control else Lift(0.0, 0.0, 0.0, 1.0)
            )
            mixed = paired_lift(_by_user(test[test["arm"] == arm]), world, metric)
            rows.append(
                {
                    "metric": metric, "arm": arm, "true_lift": true.lift, "true_low": true.low, "true_high": true.high,
                    "interference": mixed.lift, "interference_low": mixed.low, "interference_high": mixed.high,
                }
            )  # fmt: skip
    return pd.DataFrame(rows, columns=list(_TRUTH))


def _by_user(exposures: pd.DataFrame) -> pd.DataFrame:
    return exposures.groupby("user")[list(EXPECTED)].sum()

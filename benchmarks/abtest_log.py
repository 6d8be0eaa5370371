"""Logs of simulated A/B tests: users who differ in activity, taste for clicking and spending, and come back over days.

    python benchmarks/abtest_log.py data/01_raw/example_abtest/exposures.csv

writes the log of the example in `conf/base/parameters/abtests.yml`: a row for each user and day, two weeks before the test (without an
arm) and four weeks of it, in which the arm `din` has a click-through rate that is 5 % higher, and another 10 % on the day of a
user's first exposure, which fade over the following days.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.abtest.user_days import UserDays

START = pd.Timestamp("2026-03-02")
ARMS = ("base", "din")


@dataclass(frozen=True)
class Setting:
    """A population and a test.

    Attributes:
        users: users who exist; only those who come are in the test.
        days: days of the test.
        pre_days: days before it.
        lift: relative lift of the click probability of the second arm.
        novelty: further lift on the day of the first exposure, which falls by a factor e in five days.
        ctr: click probability of a typical user.
        activity: standard deviation of the logarithm of users' impressions on a day.
        visits: mean probability that a user comes on a day; users differ.
        share: share of the users in the second arm.
    """

    users: int = 6000
    days: int = 28
    pre_days: int = 14
    lift: float = 0.0
    novelty: float = 0.0
    ctr: float = 0.05
    activity: float = 0.8
    visits: float = 0.25
    share: float = 0.5


@dataclass(frozen=True)
class SimulatedLog:
    """Log of a simulated test.

    Attributes:
        arms: ``(U,)`` 0 or 1.
        values: ``(U, pre_days + days, 3)`` impressions, clicks and revenue.
        pre_days: days before the test.
    """

    arms: NDArray[np.intp]
    values: NDArray[np.float64]
    pre_days: int

    def user_days(self, *, pre_period: bool = True) -> UserDays:
        """Return the log as the read-out takes it."""
        test = self.values[:, self.pre_days :]
        users, days = np.nonzero(test[..., 0])
        before = self.values[:, : self.pre_days].sum(axis=1)
        return UserDays.of(
            users, np.array(ARMS)[self.arms[users]], days, test[users, days], arm_names=ARMS,
            pre_period=(np.arange(len(self.arms)), before) if pre_period else None,
        )  # fmt: skip

    def frame(self) -> pd.DataFrame:
        """Return the log as a table: a row for each user and day with impressions."""
        users, days = np.nonzero(self.values[..., 0])
        rows = self.values[users, days]
        arm = np.where(days < self.pre_days, "", np.array(ARMS)[self.arms[users]])
        table = pd.DataFrame({
            "day": (START + pd.to_timedelta(days - self.pre_days, unit="D")).strftime("%Y-%m-%d"),
            "customer": [f"c{user:05d}" for user in users], "variant": arm, "shown": rows[:, 0].astype(int),
            "clicked": rows[:, 1].astype(int), "paid": rows[:, 2].round(2),
        })  # fmt: skip
        return table.sort_values(["day", "customer"], ignore_index=True)


def simulate(rng: np.random.Generator, setting: Setting) -> SimulatedLog:
    """Simulate a test; every random number is drawn independently of the arm."""
    n, days = setting.users, setting.pre_days + setting.days
    arms = (rng.random(n) < setting.share).astype(np.intp)
    visits = rng.beta(0.8, 0.8 * (1 / setting.visits - 1), n)
    comes = rng.random((n, days)) < visits[:, None]
    activity = 3 * np.exp(rng.normal(-(setting.activity**2) / 2, setting.activity, n))
    impressions = comes * (1 + rng.poisson(np.broadcast_to(activity[:, None], (n, days))))
    taste = np.exp(rng.normal(-0.18, 0.6, n))[:, None] * np.exp(rng.normal(-0.045, 0.3, (n, days)))
    in_test = comes.copy()
    in_test[:, : setting.pre_days] = False
    first = np.where(in_test.any(axis=1), in_test.argmax(axis=1), days)[:, None]
    tenure = np.maximum(0, np.arange(days) - first)
    effect = setting.lift + setting.novelty * np.exp(-tenure / 5)
    effect = effect * (arms[:, None] == 1) * (np.arange(days) >= setting.pre_days)
    clicks = rng.binomial(impressions, np.minimum(0.5, setting.ctr * taste) * (1 + effect))
    spending = np.exp(rng.normal(0, 0.5, n))[:, None]
    revenue = spending * rng.gamma(2 * clicks, 0.5)
    return SimulatedLog(arms, np.stack([impressions, clicks, revenue], axis=-1), setting.pre_days)


def main() -> None:
    """Write the example's log."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--lift", type=float, default=0.05)
    parser.add_argument("--novelty", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    setting = Setting(users=options.users, lift=options.lift, novelty=options.novelty)
    table = simulate(np.random.default_rng(options.seed), setting).frame()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.file, index=False)
    print(f"{options.file}: {len(table):,} rows of {table['customer'].nunique():,} users")


if __name__ == "__main__":
    main()

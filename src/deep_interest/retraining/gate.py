"""The gate: may a challenger replace the champion, or serve as the first version?"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from deep_interest.evaluation.metrics import UserAUC, auc, logloss, per_user_auc
from deep_interest.evaluation.significance import (
    CHANCE,
    FEWEST_USERS,
    Interval,
    chance_interval,
    difference_interval,
)
from deep_interest.retraining.parameters import GateParameters


@dataclass(frozen=True)
class Figures:
    """How a model does on the held-out day.

    Attributes:
        gauc, auc, logloss: as the papers define them; NaN where they are undefined.
        calibration: mean predicted CTR over the observed one.
        users, user_coverage: users with both classes, and their share of the day's users.
        samples: impressions.
    """

    gauc: float
    auc: float
    logloss: float
    calibration: float
    users: int
    user_coverage: float
    samples: int


@dataclass(frozen=True)
class Check:
    """One condition.

    Attributes:
        name: what is looked at.
        found: its value.
        expected: what it must be, in words.
        passed: whether it is.
    """

    name: str
    found: float
    expected: str
    passed: bool


@dataclass(frozen=True)
class Verdict:
    """What the gate says.

    Attributes:
        promoted: every check passed.
        checks: all of them.
        challenger: the challenger's figures.
        champion: the champion's, or None before there is one.
        gain: the challenger's GAUC minus the champion's, or minus popularity's for a first version, with its interval; None where
            it is undefined.
    """

    promoted: bool
    checks: tuple[Check, ...]
    challenger: Figures
    champion: Figures | None
    gain: Interval | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, NaN as None."""
        return _plain(asdict(self))


def judge(
    users: ArrayLike,
    labels: ArrayLike,
    challenger: ArrayLike,
    champion: ArrayLike | None,
    gate: GateParameters,
    *,
    popularity: ArrayLike,
) -> Verdict:
    """Compare two models on the same held-out impressions.

    The challenger must beat the champion's GAUC beyond chance: the lower end of the paired interval over the users is
    above ``minimum_gain``. Of equal models at most a share of about ``level / 2`` is promoted then. It must be calibrated, its
    log loss no worse than allowed, and the day must have users enough. Before there is a champion, the challenger must beat
    the items' popularity instead, and its own GAUC must be above 0.5, each by the lower end of its interval. The intervals
    are about the fits at hand, as these fits will serve: they leave out other seeds.

    Args:
        users: ``(n,)`` ids.
        labels: ``(n,)`` in {0, 1}.
        challenger: ``(n,)`` predicted CTRs.
        champion: ``(n,)`` the champion's; None before there is one.
        gate: the conditions.
        popularity: ``(n,)`` scores of `baseline.popularity_scores`, for a first version.
    """
    users, labels = np.asarray(users), np.asarray(labels)
    theirs, our = per_user_auc(users, labels, challenger), _figures(users, labels, challenger)
    low, high = gate.calibration
    checks = [
        Check(
            "users with both classes", our.users, f"at least {gate.minimum_users}", our.users >= gate.minimum_users
        ),
        Check(
            "coverage", our.user_coverage, f"at least {gate.minimum_coverage:g}",
            our.user_coverage >= gate.minimum_coverage,
        ),
        Check("calibration", our.calibration, f"{low:g} to {high:g}", low <= our.calibration <= high),
    ]  # fmt: skip
    if champion is None:
        before = None
        gain = _gain(theirs, per_user_auc(users, labels, popularity), gate)
        checks += [
            _lower_end("GAUC, lower end", _above_chance(theirs, gate), CHANCE, offset=CHANCE),
            _lower_end("GAUC gain over popularity, lower end", gain, 0.0),
        ]
    else:
        before = _figures(users, labels, champion)
        most = before.logloss * (1 + gate.logloss_rise)
        gain = _gain(theirs, per_user_auc(users, labels, champion), gate)
        checks += [
            Check("log loss", our.logloss, f"at most {most:.5f}", our.logloss <= most),
            _lower_end("GAUC gain, lower end", gain, gate.minimum_gain),
        ]
    return Verdict(all(check.passed for check in checks), tuple(checks), our, before, gain)


def _lower_end(name: str, interval: Interval | None, bound: float, *, offset: float = 0.0) -> Check:
    """An interval's lower end, plus an offset, must be above the bound; an undefined one is not."""
    lower = np.nan if interval is None else interval.low + offset
    return Check(name, lower, f"above {bound:g}", lower > bound)


def _gain(ours: UserAUC, base: UserAUC, gate: GateParameters) -> Interval | None:
    if len(ours.users) < FEWEST_USERS:
        return None
    return difference_interval(ours, base, confidence=1 - gate.level)


def _above_chance(ours: UserAUC, gate: GateParameters) -> Interval | None:
    if len(ours.users) < FEWEST_USERS:
        return None
    return chance_interval(ours, confidence=1 - gate.level)


def _figures(users: np.ndarray, labels: np.ndarray, scores: ArrayLike) -> Figures:
    scores = np.asarray(scores, np.float64)
    by_user = per_user_auc(users, labels, scores)
    clicked = float(labels.mean())
    return Figures(
        gauc=by_user.gauc().value if len(by_user.users) else np.nan,
        auc=auc(labels, scores),
        logloss=logloss(labels, scores),
        calibration=float(scores.mean()) / clicked if clicked else np.inf,
        users=len(by_user.users),
        user_coverage=len(by_user.users) / by_user.total_users,
        samples=len(labels),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value

"""The gate decides whether a challenger replaces the champion or becomes the first version."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from deep_interest.evaluation.metrics import UserAUC, auc, per_user_auc
from deep_interest.evaluation.significance import (
    CHANCE,
    FEWEST_USERS,
    Interval,
    chance_interval,
    difference_interval,
)
from deep_interest.evaluation.weighted import weighted_logloss
from deep_interest.retraining.groups import Group
from deep_interest.retraining.parameters import GateParameters

if TYPE_CHECKING:
    from deep_interest.retraining.precision_loss import PrecisionLoss


@dataclass(frozen=True)
class Metrics:
    """Metrics of a model on the held-out day.

    Attributes:
        gauc, auc, logloss: metrics as defined in the papers; NaN if undefined.
        calibration: ratio of mean predicted CTR to observed CTR.
        users, user_coverage: number of users with both classes, and their share of the users of the day.
        samples: number of impressions.
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
    """One condition of the gate.

    Attributes:
        name: name of the quantity.
        found: its value.
        expected: description of the required value.
        passed: whether the condition is met.
    """

    name: str
    found: float
    expected: str
    passed: bool


@dataclass(frozen=True)
class Segment:
    """Predicted over observed rate of a group of impressions.

    Attributes:
        name: which impressions, such as "decile 1 of the prediction".
        samples, clicks: number of impressions, and of clicked ones among them.
        observed: observed CTR.
        model, served: ratio of the predicted to the observed CTR, with the ends of its 95 % interval over users; of the model before and
            after its calibration. NaN without a click.
    """

    name: str
    samples: int
    clicks: int
    observed: float
    model: tuple[float, float, float]
    served: tuple[float, float, float]


@dataclass(frozen=True)
class Verdict:
    """Decision of the gate.

    Attributes:
        promoted: whether all checks passed.
        checks: all checks.
        challenger: metrics of the challenger.
        champion: metrics of the champion; None for a first version.
        gain: GAUC of the challenger minus that of the champion (of popularity for a first version) with its interval; None if
            undefined.
        precision: what the reduced precision costs in which the version serves; None for float32.
        groups: metrics of the challenger by length of the history.
        segments: calibration of the challenger by segment, before and after its calibration.
        calibration: how the challenger is calibrated, as in the manifest; None if it serves the probabilities of its model.
        delayed_clicks: how complete the labels were, as in the manifest; None if the log does not say when clicks happened.
    """

    promoted: bool
    checks: tuple[Check, ...]
    challenger: Metrics
    champion: Metrics | None
    gain: Interval | None
    precision: "PrecisionLoss | None" = None
    groups: tuple[Group, ...] = ()
    segments: tuple[Segment, ...] = ()
    calibration: dict[str, Any] | None = None
    delayed_clicks: dict[str, Any] | None = None

    def with_checks(self, checks: Iterable[Check]) -> "Verdict":
        """Return the verdict with further checks, all of which must pass as well."""
        added = tuple(checks)
        promoted = self.promoted and all(check.passed for check in added)
        return replace(self, promoted=promoted, checks=self.checks + added)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, with NaN as None."""
        return _plain(asdict(self))


def judge(
    users: ArrayLike,
    labels: ArrayLike,
    challenger: ArrayLike,
    champion: ArrayLike | None,
    gate: GateParameters,
    *,
    popularity: ArrayLike,
    weights: ArrayLike | None = None,
) -> Verdict:
    """Compare two models on the same held-out impressions.

    The challenger must significantly exceed the GAUC of the champion: the lower end of the paired interval over users must be
    above ``minimum_gain``, so that a model of equal quality is promoted with a probability of about ``level / 2``. It must be
    calibrated, its log loss must not rise too much, and the day must have enough users. A first version must beat item
    popularity instead, and its GAUC must be above 0.5, both by the lower ends of their intervals. The intervals refer to the
    given fits, which are the ones that serve; they do not include variation over seeds.

    Args:
        users: ``(n,)`` ids.
        labels: ``(n,)`` in {0, 1}.
        challenger: ``(n,)`` predicted CTR of the challenger.
        champion: ``(n,)`` predicted CTR of the champion; None for a first version.
        gate: conditions.
        popularity: ``(n,)`` scores of `baseline.popularity_scores`, for a first version.
        weights: ``(n,)`` weights in log loss and calibration, at least 0; equal if left out. They do not change AUC and GAUC.
    """
    users, labels = np.asarray(users), np.asarray(labels)
    weights = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    user_aucs = per_user_auc(users, labels, challenger)
    metrics = _metrics(users, labels, challenger, weights)
    low, high = gate.calibration
    checks = [
        Check(
            "users with both classes", metrics.users, f"at least {gate.minimum_users}",
            metrics.users >= gate.minimum_users,
        ),
        Check(
            "coverage", metrics.user_coverage, f"at least {gate.minimum_coverage:g}",
            metrics.user_coverage >= gate.minimum_coverage,
        ),
        Check("calibration", metrics.calibration, f"{low:g} to {high:g}", low <= metrics.calibration <= high),
    ]  # fmt: skip
    if champion is None:
        champion_metrics = None
        gain = _gain(user_aucs, per_user_auc(users, labels, popularity), gate)
        checks += [
            _lower_end("GAUC, lower end", _above_chance(user_aucs, gate), CHANCE, offset=CHANCE),
            _lower_end("GAUC gain over popularity, lower end", gain, 0.0),
        ]
    else:
        champion_metrics = _metrics(users, labels, champion, weights)
        most = champion_metrics.logloss * (1 + gate.logloss_rise)
        gain = _gain(user_aucs, per_user_auc(users, labels, champion), gate)
        checks += [
            Check("log loss", metrics.logloss, f"at most {most:.5f}", metrics.logloss <= most),
            _lower_end("GAUC gain, lower end", gain, gate.minimum_gain),
        ]
    return Verdict(all(check.passed for check in checks), tuple(checks), metrics, champion_metrics, gain)


def _lower_end(name: str, interval: Interval | None, bound: float, *, offset: float = 0.0) -> Check:
    """Check that the lower end of an interval, plus an offset, is above a bound; an undefined interval fails."""
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


def _metrics(users: np.ndarray, labels: np.ndarray, scores: ArrayLike, weights: np.ndarray) -> Metrics:
    scores = np.asarray(scores, np.float64)
    by_user = per_user_auc(users, labels, scores)
    clicked = float(weights @ labels)
    return Metrics(
        gauc=by_user.gauc().value if len(by_user.users) else np.nan,
        auc=auc(labels, scores),
        logloss=weighted_logloss(labels, scores, weights),
        calibration=float(weights @ scores) / clicked if clicked else np.inf,
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

"""All estimates of a log, what they rest on, and a verdict."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.offpolicy.decisions import Decisions, Slate, slate_weights
from deep_interest.offpolicy.diagnostics import Diagnostics, diagnose
from deep_interest.offpolicy.estimators import (
    Estimate,
    difference,
    doubly_robust,
    ips,
    on_policy,
    snips,
    switch_dr,
)

ESTIMATORS = {"ips": "IPS", "snips": "SNIPS", "dr": "Doubly robust", "switch_dr": "Switch-DR"}
"""Names of the estimators by key."""


@dataclass(frozen=True)
class Evaluation:
    """Off-policy evaluation of a log.

    Attributes:
        results: one row for each estimator: ``estimator``, ``value``, ``low``, ``high``, ``error``, ``logged`` (mean reward of the log),
            ``logged_low``, ``logged_high``, ``lift`` (relative), ``difference``, ``difference_low``, ``difference_high``, ``threshold`` (of
            switch-DR).
        checks: `Diagnostics` as plain values, with ``refusals`` and ``slate``.
        weights: ``(N,)`` weights of the rows.
    """

    results: pd.DataFrame
    checks: dict[str, Any]
    weights: NDArray[np.float64]


def evaluate(
    decisions: Decisions, *, slate: Slate = "item_position", unseen: float = float("nan")
) -> Evaluation:
    """Estimate the mean reward of an impression under the target policy by all estimators.

    Args:
        decisions: the log; doubly robust estimates need its reward model.
        slate: form of the weights, see `decisions.slate_weights`.
        unseen: see `diagnostics.diagnose`.

    Raises:
        InputError: fewer than two users, or all weights are 0.
    """
    weights = slate_weights(decisions, slate)
    logged = on_policy(decisions)
    found: dict[str, tuple[Estimate, float]] = {
        "ips": (ips(decisions, weights), float("nan")),
        "snips": (snips(decisions, weights), float("nan")),
    }
    if decisions.expected is not None:
        found["dr"] = doubly_robust(decisions, weights), float("nan")
        found["switch_dr"] = switch_dr(decisions, weights)
    rows = [_row(key, estimate, tau, logged, decisions) for key, (estimate, tau) in found.items()]
    diagnostics = diagnose(decisions, weights, unseen=unseen)
    return Evaluation(pd.DataFrame(rows), _checks(diagnostics, slate), weights)


def _row(
    key: str, estimate: Estimate, threshold: float, logged: Estimate, decisions: Decisions
) -> dict[str, Any]:
    gain = difference(estimate, logged, decisions)
    return {
        "estimator": key, "value": estimate.value, "low": estimate.low, "high": estimate.high, "error": estimate.error,
        "logged": logged.value, "logged_low": logged.low, "logged_high": logged.high,
        "lift": gain.value / logged.value if logged.value else float("nan"),
        "difference": gain.value, "difference_low": gain.low, "difference_high": gain.high, "threshold": threshold,
    }  # fmt: skip


def _checks(diagnostics: Diagnostics, slate: Slate) -> dict[str, Any]:
    values = {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in asdict(diagnostics).items()
    }
    return values | {"refusals": diagnostics.refusals, "slate": slate}

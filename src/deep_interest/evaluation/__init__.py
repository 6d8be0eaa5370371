"""Evaluation of click models on arrays, for this project and any other program: metrics, intervals, power, calibration.

``from deep_interest.evaluation import gauc, paired_bootstrap``; modules are imported when a name is first used, and none of them imports
torch or Kedro. `docs/evaluation.md` is the guide.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deep_interest.evaluation.bootstrap import paired_bootstrap, user_aucs
    from deep_interest.evaluation.calibration import (
        IsotonicCalibration,
        calibration_by_segment,
        correct_for_sampling,
        deciles,
        shift_to_rate,
    )
    from deep_interest.evaluation.inferiority import (
        Candidate,
        NonInferiority,
        non_inferiority,
        smallest_not_worse,
    )
    from deep_interest.evaluation.metrics import GAUC, UserAUC, auc, gauc, logloss, per_user_auc, rela_impr
    from deep_interest.evaluation.power import Power, power_of
    from deep_interest.evaluation.requests import request_metrics
    from deep_interest.evaluation.seed_variance import SeedVariance, variance_over_seeds
    from deep_interest.evaluation.significance import (
        Interval,
        chance_interval,
        difference_interval,
        holm,
        mean_over_seeds,
    )
    from deep_interest.evaluation.weighted import weighted_auc, weighted_logloss

_MODULES = {
    "bootstrap": ("paired_bootstrap", "user_aucs"),
    "calibration": (
        "IsotonicCalibration", "calibration_by_segment", "correct_for_sampling", "deciles", "shift_to_rate",
    ),
    "inferiority": ("Candidate", "NonInferiority", "non_inferiority", "smallest_not_worse"),
    "metrics": ("GAUC", "UserAUC", "auc", "gauc", "logloss", "per_user_auc", "rela_impr"),
    "power": ("Power", "power_of"),
    "requests": ("request_metrics",),
    "seed_variance": ("SeedVariance", "variance_over_seeds"),
    "significance": ("Interval", "chance_interval", "difference_interval", "holm", "mean_over_seeds"),
    "weighted": ("weighted_auc", "weighted_logloss"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "GAUC",
    "Candidate",
    "Interval",
    "IsotonicCalibration",
    "NonInferiority",
    "Power",
    "SeedVariance",
    "UserAUC",
    "auc",
    "calibration_by_segment",
    "chance_interval",
    "correct_for_sampling",
    "deciles",
    "difference_interval",
    "gauc",
    "holm",
    "logloss",
    "mean_over_seeds",
    "non_inferiority",
    "paired_bootstrap",
    "per_user_auc",
    "power_of",
    "rela_impr",
    "request_metrics",
    "shift_to_rate",
    "smallest_not_worse",
    "user_aucs",
    "variance_over_seeds",
    "weighted_auc",
    "weighted_logloss",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]

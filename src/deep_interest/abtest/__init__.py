"""Read-out of A/B tests from exposure logs, on arrays, for this project and any other program.

``from deep_interest.abtest import UserDays, lift_of``; modules are imported when a name is first used, and none of them imports torch or
Kedro. `docs/experiments.md` is the guide. The unit of every interval is the user, who is assigned to an arm; users come back, so their
impressions are not independent.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deep_interest.abtest.assignment import SampleRatio, sample_ratio
    from deep_interest.abtest.duration import VarianceCurve, days_until, detectable_lift, fit_variance_curve
    from deep_interest.abtest.lift import Lift, LogDifference, lift_of, log_difference
    from deep_interest.abtest.metrics import METRICS, Metric
    from deep_interest.abtest.moments import Moments
    from deep_interest.abtest.novelty import Slope, by_group, novelty_slope
    from deep_interest.abtest.planned_looks import boundaries, spent_error, valid_on_planned_days
    from deep_interest.abtest.readout import Readout, read_out
    from deep_interest.abtest.sequential import always_valid, always_valid_p
    from deep_interest.abtest.user_days import UserDays

_MODULES = {
    "assignment": ("SampleRatio", "sample_ratio"),
    "duration": ("VarianceCurve", "days_until", "detectable_lift", "fit_variance_curve"),
    "lift": ("Lift", "LogDifference", "lift_of", "log_difference"),
    "metrics": ("METRICS", "Metric"),
    "moments": ("Moments",),
    "novelty": ("Slope", "by_group", "novelty_slope"),
    "planned_looks": ("boundaries", "spent_error", "valid_on_planned_days"),
    "readout": ("Readout", "read_out"),
    "sequential": ("always_valid", "always_valid_p"),
    "user_days": ("UserDays",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "METRICS",
    "Lift",
    "LogDifference",
    "Metric",
    "Moments",
    "Readout",
    "SampleRatio",
    "Slope",
    "UserDays",
    "VarianceCurve",
    "always_valid",
    "always_valid_p",
    "boundaries",
    "by_group",
    "days_until",
    "detectable_lift",
    "fit_variance_curve",
    "lift_of",
    "log_difference",
    "novelty_slope",
    "read_out",
    "sample_ratio",
    "spent_error",
    "valid_on_planned_days",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]

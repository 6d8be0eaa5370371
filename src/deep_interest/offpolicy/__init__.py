"""Off-policy evaluation: what would version B have earned on the log of version A? On arrays, for this project and any other program.

``from deep_interest.offpolicy import Decisions, evaluate``; modules are imported when a name is first used, and none of them imports torch
or Kedro. `docs/experiments.md` is the guide.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deep_interest.offpolicy.decisions import Decisions, slate_weights
    from deep_interest.offpolicy.diagnostics import Diagnostics, diagnose
    from deep_interest.offpolicy.estimators import Estimate, doubly_robust, ips, on_policy, snips, switch_dr
    from deep_interest.offpolicy.evaluation import Evaluation, evaluate
    from deep_interest.offpolicy.plackett_luce import sample_order, slot_probabilities
    from deep_interest.offpolicy.policies import epsilon_greedy, softmax
    from deep_interest.offpolicy.reward_model import Rates, fold_of, rates_without

_MODULES = {
    "decisions": ("Decisions", "slate_weights"),
    "diagnostics": ("Diagnostics", "diagnose"),
    "estimators": ("Estimate", "doubly_robust", "ips", "on_policy", "snips", "switch_dr"),
    "evaluation": ("Evaluation", "evaluate"),
    "plackett_luce": ("sample_order", "slot_probabilities"),
    "policies": ("epsilon_greedy", "softmax"),
    "reward_model": ("Rates", "fold_of", "rates_without"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Decisions",
    "Diagnostics",
    "Estimate",
    "Evaluation",
    "Rates",
    "diagnose",
    "doubly_robust",
    "epsilon_greedy",
    "evaluate",
    "fold_of",
    "ips",
    "on_policy",
    "rates_without",
    "sample_order",
    "slate_weights",
    "slot_probabilities",
    "snips",
    "softmax",
    "switch_dr",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]

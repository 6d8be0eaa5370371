"""Is a model not worse than another by more than a margin, and which is the smallest one that is not?"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import UserAUC
from deep_interest.evaluation.seed_variance import SeedVariance
from deep_interest.evaluation.significance import difference_estimate, holm

LEVEL = 0.05


@dataclass(frozen=True)
class NonInferiority:
    """Result of a test of non-inferiority.

    Attributes:
        difference: GAUC of the one minus GAUC of the other.
        low: lower end of the one-sided interval.
        margin: largest loss in GAUC that does not count.
        p_value: one-sided p-value of "worse by at least the margin".
        is_shown: whether the model is shown not to be worse by the margin: ``low`` is above ``-margin``.
    """

    difference: float
    low: float
    margin: float
    p_value: float
    is_shown: bool


def non_inferiority(
    ours: UserAUC, base: UserAUC, *, margin: float, seeds: Sequence[SeedVariance] = (), level: float = LEVEL
) -> NonInferiority:
    """Test whether a model is not worse than another by a margin.

    It is shown if the lower end of the interval of mass ``1 - 2 level`` is above ``-margin``; an interval that includes 0 shows nothing by itself.

    Args:
        ours: AUC by user of the one model, averaged over its fits (`user_aucs`).
        base: AUC by user of the other.
        margin: largest loss in GAUC that does not count, above 0.
        seeds: seed variance of each of the two models; left out, the result is about the fits at hand.
        level: probability with which a model that is worse by exactly the margin passes, in (0, 0.5).

    Raises:
        InputError: as for `difference_interval`, or a margin or level out of range.

    Example:
        >>> import numpy as np
        >>> from deep_interest.evaluation.metrics import per_user_auc
        >>> users, labels = np.repeat(np.arange(400), 10), np.tile([1, 0], 2000)
        >>> scores = labels + np.random.default_rng(0).normal(0, 1, 4000)
        >>> small = np.round(scores, 2)  # a model that is almost the same
        >>> large = per_user_auc(users, labels, scores)
        >>> non_inferiority(per_user_auc(users, labels, small), large, margin=0.002).is_shown
        True
    """
    if not margin > 0:
        raise InputError(f"margin: found {margin}, expected a loss in GAUC above 0, as 0.002")
    if not 0 < level < 0.5:
        raise InputError(f"level: found {level}, expected a probability between 0 and 0.5, as 0.05")
    found = difference_estimate(ours, base, seeds=seeds)
    low, p_value = found.mean - found.half_width(1 - 2 * level), found.below(-margin)
    return NonInferiority(found.mean, low, margin, p_value, is_shown=p_value < level)


@dataclass(frozen=True)
class Candidate:
    """A model that may replace a more expensive one.

    Attributes:
        users: AUC by user, averaged over its fits.
        cost: what it costs, such as milliseconds of scoring or bytes of memory.
        seeds: its seed variance; None for the fits at hand.
    """

    users: UserAUC
    cost: float
    seeds: SeedVariance | None = None


def smallest_not_worse(
    candidates: Mapping[str, Candidate], *, reference: str, margin: float, level: float = LEVEL
) -> tuple[str, dict[str, NonInferiority]]:
    """Find the cheapest model that is not worse than a reference.

    The p-values of the cheaper models are corrected by Holm, so that the probability of naming a model that is worse by the margin is at
    most the level.

    Args:
        candidates: models by name, the reference among them.
        reference: name of the model to compare with, such as the best one on validation data.
        margin: largest loss in GAUC that does not count.
        level: level of all tests together.

    Returns:
        The name, that of the reference if no cheaper model is shown not to be worse; and the test of each cheaper model, with its
        corrected p-value.

    Raises:
        InputError: as for `non_inferiority`, or the reference is not among the candidates.
    """
    if reference not in candidates:
        raise InputError(f"reference: {reference} is not among the models; they are {', '.join(candidates)}")
    best = candidates[reference]
    cheaper = [name for name, of in candidates.items() if name != reference and of.cost < best.cost]
    tests = non_inferiority_tests(candidates, reference=reference, tested=cheaper, margin=margin, level=level)
    results = {name: tests[name] for name in cheaper}
    shown = [name for name, test in results.items() if test.is_shown]
    return min(shown, key=lambda name: candidates[name].cost, default=reference), results


def non_inferiority_tests(
    candidates: Mapping[str, Candidate],
    *,
    reference: str,
    tested: Collection[str],
    margin: float,
    level: float = LEVEL,
) -> dict[str, NonInferiority]:
    """Compare all models with a reference, and correct the p-values of some by Holm.

    Args:
        candidates: models by name, the reference among them.
        reference: name of the model to compare with.
        tested: names of the models that may be chosen; only their p-values are corrected, and only they can be shown not to be worse.
        margin: largest loss in GAUC that does not count.
        level: level of all tests together.

    Raises:
        InputError: as for `non_inferiority`.
    """
    best, tests = candidates[reference], dict[str, NonInferiority]()
    for name, of in candidates.items():
        if name != reference:
            seeds = [] if of.seeds is None or best.seeds is None else [of.seeds, best.seeds]
            tests[name] = non_inferiority(of.users, best.users, margin=margin, seeds=seeds, level=level)
    corrected = dict(zip(tested, holm([tests[name].p_value for name in tested]), strict=True))
    return {
        name: replace(test, p_value=float(corrected[name]), is_shown=bool(corrected[name] < level))
        if name in corrected
        else replace(test, is_shown=False)
        for name, test in tests.items()
    }

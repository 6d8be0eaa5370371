"""What a results table shows, in sentences; a sentence claims only what the intervals support."""

import pandas as pd

from deep_interest.evaluation.comparison import ORACLE
from deep_interest.evaluation.page import SIGNIFICANCE_LEVEL
from deep_interest.evaluation.table_notes import join_names, omissions

MAX_LISTED_NAMES = 5
SAMPLED_PROTOCOLS = ("next_item", "last_item")  # their negatives are sampled


def sentences(results: pd.DataFrame, *, protocol: str, base: str = "base") -> list[str]:
    """Describe a results table in plain sentences.

    Args:
        results: table of `evaluation.comparison.compare`, or the same read back from CSV.
        protocol: key of the protocol that made the samples, such as ``next_item``.
        base: key of the model that the others are compared with.

    Returns:
        The sentences, most important first: the best model, differences to the base and to the best baseline, precision of the
        differences, spread over seeds, popularity and oracle.
    """
    models = results[results["model"] != ORACLE]
    names = dict(zip(results["model"], results["name"], strict=True))
    described = [_best_model(models, sampled=protocol in SAMPLED_PROTOCOLS)]
    if _is_tested(models, base):
        described += _compared_with(models, names[base])
    best_baseline = models["second"].dropna().iloc[0] if models["second"].notna().any() else None
    if best_baseline != base and _is_tested(models, best_baseline, prefix="second_"):
        described += _compared_with(
            models, names[best_baseline], prefix="second_", role=", the best baseline on the validation set,"
        )
    described += omissions(results, base)
    described += _precision(models) + _spread_over_seeds(models) + _popularity(models, protocol)
    return described + _oracle(results)


def _is_tested(models: pd.DataFrame, reference: object, *, prefix: str = "") -> bool:
    return (models["model"] == reference).any() and models[f"{prefix}p_holm"].notna().any()


def _best_model(models: pd.DataFrame, *, sampled: bool) -> str:
    best = models.loc[models["gauc"].idxmax()]
    negative = "randomly drawn negative" if sampled else "negative"
    deviation = (
        "" if pd.isna(best["gauc_std"]) else f" (± {best['gauc_std']:.4f} over {int(best['seeds'])} seeds)"
    )
    return (
        f"{best['name']} has the highest GAUC, {best['gauc']:.4f}{deviation}: given a positive and a {negative} sample of the "
        f"same user, it ranks the positive one higher in {best['gauc']:.1%} of the cases."
    )


def _compared_with(models: pd.DataFrame, name: str, *, prefix: str = "", role: str = "") -> list[str]:
    """Name the models that are significantly better or worse than a reference, and those that are neither.

    Models without a p-value are omitted. ``role`` describes the reference; it begins and ends with a comma.
    """
    tested = models[models[f"{prefix}p_holm"].notna()]
    difference = tested[f"{prefix}difference"]
    significant = tested[f"{prefix}p_holm"] < SIGNIFICANCE_LEVEL
    better = tested[significant & (difference > 0)].sort_values(f"{prefix}difference", ascending=False)
    worse = tested[significant & (difference < 0)]
    described = [_gains(better, f"{name}{role.removesuffix(',')}", prefix)] if len(better) else []
    if better.empty:
        described.append(f"No gain over {name}{role} is significant.")
    if len(worse) == 1:
        described.append(f"{worse.iloc[0]['name']} is significantly worse than {name}.")
    elif len(worse):
        described.append(f"{len(worse)} models are significantly worse than {name}: {_names(worse)}.")
    if not significant.all():
        described.append(
            f"The test set cannot separate {_names_or_count(tested.loc[~significant, 'name'])} from {name}; this does not prove that "
            "they are equal."
        )
    return described


def _gains(better: pd.DataFrame, reference: str, prefix: str) -> str:
    """Name the models that are significantly better than the reference, and the largest gain; largest gain first in ``better``."""
    first = better.iloc[0]
    gain, low, high = (first[f"{prefix}difference{suffix}"] for suffix in ("", "_low", "_high"))
    interval = f"{gain:+.4f}, 95% interval {low:+.4f} to {high:+.4f}"
    if len(better) == 1:
        return f"{first['name']} is significantly better than {reference}: {interval}."
    return f"{len(better)} models are significantly better than {reference}: {_names(better)}. {first['name']} gains most: {interval}."


def _precision(models: pd.DataFrame) -> list[str]:
    tested = models[models["p_holm"].notna()]
    half_widths = (tested["difference_high"] - tested["difference_low"]) / 2
    if half_widths.empty:
        return []
    return [
        f"Differences are accurate to about ± {half_widths.median():.4f} (median half-width of the 95% intervals, over users and seeds). "
        "This test set cannot show smaller ones."
    ]


def _spread_over_seeds(models: pd.DataFrame) -> list[str]:
    if models["seeds"].max() < 2:
        return [
            "Every model was trained with one seed only. This table cannot show how much another seed would change its GAUC."
        ]
    widest = models.loc[models["gauc_std"].idxmax()]
    included = " The intervals include this variation." if models["p_holm"].notna().any() else ""
    return [
        f"The GAUC of a model varies from seed to seed with a standard deviation of {models['gauc_std'].median():.4f} (median over the "
        f"models); the largest is that of {widest['name']}, {widest['gauc_std']:.4f}.{included}"
    ]


def _popularity(models: pd.DataFrame, protocol: str) -> list[str]:
    popularity = models[models["model"] == "popularity"]
    if popularity.empty or protocol not in SAMPLED_PROTOCOLS:
        return []
    return [
        f"Popularity alone, which ignores the user, reaches a GAUC of {popularity['gauc'].iloc[0]:.4f}: this much the "
        "sampled negatives reveal without any knowledge of the user."
    ]


def _oracle(results: pd.DataFrame) -> list[str]:
    oracle = results[results["model"] == ORACLE]
    if oracle.empty or "oracle_share" not in results:
        return []
    models = results[results["model"] != ORACLE]
    best = models.loc[models["gauc"].idxmax()]
    return [
        f"The oracle, which knows the true click probabilities, reaches a GAUC of {oracle['gauc'].iloc[0]:.4f}; {best['name']} achieves "
        f"{best['oracle_share']:.0%} of the oracle's gain over random guessing. This log is simulated: the table shows what the models "
        "can learn from it and says nothing about a real shop."
    ]


def _names(models: pd.DataFrame) -> str:
    return join_names([str(name) for name in models["name"]]).rstrip(".")


def _names_or_count(names: pd.Series) -> str:
    if len(names) > MAX_LISTED_NAMES:
        return f"the other {len(names)} models"
    return join_names([str(name) for name in names])

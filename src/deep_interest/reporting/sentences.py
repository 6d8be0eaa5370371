"""What a table says, in plain sentences; nothing is said that its intervals do not carry."""

import pandas as pd

from deep_interest.evaluation.comparison import ORACLE
from deep_interest.evaluation.page import SIGNIFICANT, refusals

FEW = 5  # names that a sentence lists
SAMPLED = ("next_item", "last_item")  # protocols whose negatives are drawn


def sentences(results: pd.DataFrame, *, protocol: str, base: str = "base") -> list[str]:
    """The table in words.

    Args:
        results: of `evaluation.comparison.compare`, or the same read back from CSV.
        protocol: how samples were made.
        base: key of the row that others are compared with.
    """
    models = results[results["model"] != ORACLE]
    said = [_best(models, sampled=protocol in SAMPLED)]
    names = dict(zip(results["model"], results["name"], strict=True))
    second = models["second"].dropna().iloc[0] if models["second"].notna().any() else None
    for key, prefix in ((base, ""), (second, "second_")):
        if key in names and models[f"{prefix}p_holm"].notna().any() and not (prefix and key == base):
            said += _against(models, str(names[key]), prefix)
    said += refusals(results, base)
    said += _precision(models) + _seeds(models) + _popularity(models, protocol) + _oracle(results)
    return said


def _best(models: pd.DataFrame, *, sampled: bool) -> str:
    best = models.loc[models["gauc"].idxmax()]
    other = "one drawn at random" if sampled else "a negative one"
    deviation = (
        "" if pd.isna(best["gauc_std"]) else f" (± {best['gauc_std']:.4f} over {int(best['seeds'])} seeds)"
    )
    return (
        f"{best['name']} has the highest GAUC, {best['gauc']:.4f}{deviation}: of two samples of one user, a positive one and {other}, "
        f"it puts the positive one first in {best['gauc']:.1%} of the cases."
    )


def _against(models: pd.DataFrame, name: str, prefix: str) -> list[str]:
    """Which rows are above, which below, and for which the question is open; untested rows are left out."""
    known = models[models[f"{prefix}p_holm"].notna()]
    sure = known[f"{prefix}p_holm"] < SIGNIFICANT
    above = known[sure & (known[f"{prefix}difference"] > 0)].sort_values(
        f"{prefix}difference", ascending=False
    )
    below = known[sure & (known[f"{prefix}difference"] < 0)]
    said = []
    if len(above):
        first = above.iloc[0]
        said.append(
            f"{_count(above)} significantly above {name}: {_list(above['name']).rstrip('.')}. The largest gain, {first['name']}'s, is "
            f"{first[f'{prefix}difference']:+.4f}, with the 95% interval "
            f"{first[f'{prefix}difference_low']:+.4f} to {first[f'{prefix}difference_high']:+.4f}."
        )
    else:
        said.append(f"No row is significantly above {name}.")
    if len(below):
        said.append(f"{_count(below)} significantly below {name}: {_list(below['name']).rstrip('.')}.")
    if not sure.all():
        said.append(
            f"This test set cannot separate {_others(known.loc[~sure, 'name'])} from {name}; that does not prove that they are equal."
        )
    return said


def _precision(models: pd.DataFrame) -> list[str]:
    tested = models[models["p_holm"].notna()]
    half = (tested["difference_high"] - tested["difference_low"]) / 2
    if half.empty:
        return []
    return [
        f"Differences are known to about ± {half.median():.4f} (half the median 95% interval, over users and seeds); this test set "
        "cannot show smaller ones."
    ]


def _seeds(models: pd.DataFrame) -> list[str]:
    if models["seeds"].max() < 2:
        return [
            "Every row is one fit with one seed: another seed moves a row by an amount that this table cannot show."
        ]
    worst = models.loc[models["gauc_std"].idxmax()]
    included = " The intervals include this." if models["p_holm"].notna().any() else ""
    return [
        f"Another seed moves a row's GAUC by {models['gauc_std'].median():.4f} (median of the standard deviations), {worst['name']}'s by "
        f"{worst['gauc_std']:.4f}.{included}"
    ]


def _popularity(models: pd.DataFrame, protocol: str) -> list[str]:
    row = models[models["model"] == "popularity"]
    if row.empty or protocol not in SAMPLED:
        return []
    return [
        f"Popularity alone, which knows nothing of the user, reaches {row['gauc'].iloc[0]:.4f}: so much the drawn negatives give away."
    ]


def _oracle(results: pd.DataFrame) -> list[str]:
    oracle = results[results["model"] == ORACLE]
    if oracle.empty or "oracle_share" not in results:
        return []
    models = results[results["model"] != ORACLE]
    best = models.loc[models["gauc"].idxmax()]
    return [
        f"The oracle, which knows the true click probabilities, reaches {oracle['gauc'].iloc[0]:.4f}; {best['name']} has "
        f"{best['oracle_share']:.0%} of its gain over guessing. This log is simulated: the table shows what the models can find, and "
        "says nothing about a real shop."
    ]


def _count(rows: pd.DataFrame) -> str:
    return "One row is" if len(rows) == 1 else f"{len(rows)} rows are"


def _others(names: pd.Series) -> str:
    return _list(names) if len(names) <= FEW else f"the other {len(names)} rows"


def _list(names: pd.Series) -> str:
    texts = [str(name) for name in names]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"

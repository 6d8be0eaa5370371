"""What the columns of a results table mean, and why some are empty."""

from collections.abc import Sequence

import pandas as pd

from deep_interest.evaluation.comparison import ORACLE
from deep_interest.evaluation.significance import CHANCE

VALIDATION_HEADING = "Validation GAUC"
ORACLE_HEADING = "Share of the oracle's gain"
GIVEN_HEADINGS = {
    "request_gauc": "GAUC by request", "request_auc": "AUC by request", "mrr": "MRR", "ndcg_5": "nDCG@5", "ndcg_10": "nDCG@10",
    "weighted_auc": "Weighted AUC", "weighted_logloss": "Weighted LogLoss",
}  # fmt: skip
"""Headings of the metrics of samples with requests or weights."""


def column_notes(results: pd.DataFrame, headings: list[str], base: str) -> list[str]:
    """Explain the columns of a results table.

    Args:
        results: table of `comparison.compare`, or the same read back from CSV.
        headings: headings of the columns that are shown.
        base: key of the model that the others are compared with.

    Returns:
        Markdown, one paragraph per note.
    """
    base_name = name_of(results, base)
    notes = [
        "**GAUC**: mean of the users' AUCs, weighted by their numbers of samples (DIN eq. 10). AUC is the probability that a "
        "positive sample is scored higher than a negative one: 0.5 is random guessing, 1 is perfect, ties count one half.",
        "**±**: standard deviation over seeds; omitted if there is one seed. **AUC**: over all samples at once, across users. "
        "**LogLoss**: lower is better.",
    ]
    if VALIDATION_HEADING in headings:
        notes.append(
            f"**{VALIDATION_HEADING}**: on the validation set, of the evaluation whose parameters were selected by it, mean over seeds. "
            "Selection makes it optimistic, and the two sets have other users or days; a model that loses much more than the others "
            "from validation to test fits the validation set too closely."
        )
    notes += [*_given_notes(results, headings), *_search_notes(results)]
    if base_name:
        notes.append(
            f"**RelaImpr**: gain in GAUC over 0.5, relative to that of {base_name} (DIN eq. 11). **Difference**: GAUC minus that of "
            f"{base_name}, with its 95% interval over users and seeds in brackets: how much the difference varies with other users "
            "and other training runs of both models. `*` marks a difference that is significant at the 5% level after Holm's "
            "correction for all models in the column; without it, the order of the two models may be due to chance. `†` marks a "
            "difference that is not tested because a model has one seed; its interval covers users only."
        )
        notes += omissions(results, base)
    if sum(heading.startswith("Difference") for heading in headings) > 1:
        notes.append(
            "In the table of all models, the second difference is to the baseline with the highest validation GAUC."
        )
    if ORACLE_HEADING in headings:
        notes.append(
            f"**{ORACLE_HEADING}**: the oracle predicts the probability from which the simulator drew each label; no model can beat "
            "it except by chance. The column shows the GAUC of a model above 0.5 as a share of the oracle's."
        )
    if "Published" in headings:
        notes.append(
            "**Published**: metrics reported by others for this dataset and protocol; GAUC unless marked AUC. The source says how "
            "they were obtained: some are the best of many evaluations on the test set, ours come from a single evaluation."
        )
    notes.append(
        "Metrics published for another protocol must not be compared with these, even if the dataset has the same name: "
        "other targets and other negatives make a different task."
    )
    notes.append(
        "**Training (s)** and **Samples/s**: mean over seeds on the machine that trained the models; they do not affect the ranking."
    )
    return notes


def _given_notes(results: pd.DataFrame, headings: list[str]) -> list[str]:
    """Explain the metrics of samples with requests or weights."""
    notes = []
    if GIVEN_HEADINGS["request_gauc"] in headings:
        coverage = results["request_coverage"].iloc[0]
        notes.append(
            "**GAUC by request**: mean of the AUCs of the requests, weighted by their numbers of samples. **AUC by request**, **MRR** and "
            "**nDCG**: unweighted means over requests, as on the MIND leaderboard; samples with equal scores are ranked at random. All "
            f"cover the {coverage:.1%} of the requests that have a positive and a negative sample."
        )
    if GIVEN_HEADINGS["weighted_auc"] in headings:
        notes.append(
            "**Weighted AUC**, **Weighted LogLoss**: each sample, or pair of samples, counts with its weight in the source."
        )
    return notes


def _search_notes(results: pd.DataFrame) -> list[str]:
    """Say which models have options that a search has found, if others have not been searched."""
    if "searched" not in results:
        return []
    searched, trained = results["searched"].astype(bool), results["samples_per_second"].notna()
    other = results.loc[trained & ~searched, "name"].tolist()
    if not other:
        return []
    return [
        f"**Options**: a search on validation data has found those of {join_names(results.loc[searched, 'name'].tolist())}. Those of "
        f"{join_names(other)} were not searched, so a comparison between the two groups also compares the searches."
    ]


def omissions(results: pd.DataFrame, base: str = "base") -> list[str]:
    """Say why the table has no intervals, intervals over users only, or no RelaImpr.

    Args:
        results: table of `comparison.compare`, or the same read back from CSV.
        base: key of the model that the others are compared with.

    Returns:
        One sentence or two for each omission; empty if nothing is omitted.
    """
    compared = results[results["model"] != ORACLE]
    reasons = []
    without_interval = compared["difference"].notna() & compared["difference_low"].isna()
    if without_interval.any():
        reasons.append(
            f"No intervals, significance marks or conclusions are given: {compared.loc[without_interval, 'interval_note'].iloc[0]}."
        )
    if single_seed := _untested_single_seed(compared):
        reasons.append(
            f"{join_names(single_seed)}: trained with one seed, so the interval covers users only and no difference is tested. Train "
            "with at least two seeds to compare models."
        )
    name = name_of(results, base)
    if name and results["rela_impr"].isna().all():
        reasons.append(f"RelaImpr is omitted: {_why_no_rela_impr(results, base, name)}.")
    return reasons


def name_of(results: pd.DataFrame, key: str) -> str | None:
    """Return the displayed name of a model; None if the table does not have it."""
    names = results.loc[results["model"] == key, "name"]
    return None if names.empty else str(names.iloc[0])


def join_names(names: Sequence[str]) -> str:
    """Return the names as an enumeration: "A", "A and B", "A, B and C"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _untested_single_seed(compared: pd.DataFrame) -> list[str]:
    """Return the names of models with one seed, if that is why a difference has an interval but no test."""
    untested = compared["difference_low"].notna() & compared["p_holm"].isna()
    return compared.loc[compared["seed_variance"].isna(), "name"].tolist() if untested.any() else []


def _why_no_rela_impr(results: pd.DataFrame, base: str, name: str) -> str:
    row = results[results["model"] == base].iloc[0]
    if pd.isna(row["gauc_low"]):
        return f"this test set cannot show that {name}'s GAUC ({row['gauc']:.4f}) differs from 0.5"
    relation = "includes" if row["gauc_high"] >= CHANCE else "is below"
    return (
        f"the 95% interval of {name}'s GAUC, {row['gauc']:.4f} [{row['gauc_low']:.4f}, {row['gauc_high']:.4f}], {relation} 0.5, so a "
        "gain relative to it is not meaningful"
    )

"""The table of a dataset: each model's GAUC, its deviation over seeds, and what it gains over BaseModel."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.errors import InputError
from deep_interest.evaluation.evidence import EvaluationParameters, shortage
from deep_interest.evaluation.metrics import UserAUC, auc, logloss, per_user_auc, rela_impr
from deep_interest.evaluation.requests import REQUEST_METRICS, mean_request_metrics
from deep_interest.evaluation.seed_variance import FIXED, SeedVariance, variance_over_seeds
from deep_interest.evaluation.significance import (
    CHANCE,
    chance_interval,
    difference_interval,
    holm,
    mean_over_seeds,
)
from deep_interest.evaluation.weighted import WEIGHTED_METRICS, weighted_auc, weighted_logloss

ORACLE = "oracle"
ORACLE_NAME = "Oracle (true probability)"


@dataclass(frozen=True)
class ModelRuns:
    """Predictions of one model for the test set, by seed.

    Attributes:
        name: the papers' name of the model.
        seeds: (S,) the seeds; one for a model without randomness.
        probabilities: (S, n) float32 in [0, 1], in the order of the test samples.
        train_seconds: (S,) seconds of training.
        samples_per_second: (S,) training samples per second.
        baseline: whether it is one of the baselines.
        validation_gauc: of the selected evaluation, mean over seeds; NaN if nothing was selected by it.
        deterministic: whether every seed gives the same model.
        searched: whether its options were found by a search.
    """

    name: str
    seeds: tuple[int, ...]
    probabilities: NDArray[np.floating]
    train_seconds: NDArray[np.floating]
    samples_per_second: NDArray[np.floating]
    baseline: bool = False
    validation_gauc: float = np.nan
    deterministic: bool = False
    searched: bool = False


@dataclass(frozen=True)
class _Scored:
    """Columns of one model, and what its intervals need.

    ``seeds`` is None if there is one fit, which cannot show how much another one would differ.
    """

    row: dict[str, object]
    users: UserAUC
    seeds: SeedVariance | None

    @property
    def name(self) -> str:
        return str(self.row["name"])


def compare(
    test: pd.DataFrame,
    runs: Mapping[str, ModelRuns],
    *,
    base: str = "base",
    second: str | None = None,
    minimum: EvaluationParameters | None = None,
) -> pd.DataFrame:
    """Return one row per model, in the order of ``runs``, and the oracle's last if the true probabilities are known.

    ``gauc``, ``auc``, ``logloss`` and the timings are means over seeds, ``*_std`` sample deviations over seeds
    (empty with one seed), ``gauc_low`` and ``gauc_high`` the 95 % interval of the GAUC. ``rela_impr`` is the relative gain in GAUC
    over the base in percent, empty if the interval of the base includes 0.5. ``difference`` is GAUC minus that of the base with its
    95 % interval over users and seeds (`significance`) and its p-value, corrected by Holm for all rows of the column; empty in the row
    of the base, and in all rows if ``base`` is not among the runs. ``interval_note`` says why an interval is missing or covers users
    only. The columns ``second_*`` compare with the model ``second``: by default, the baseline with the highest validation
    GAUC. ``seed_variance`` is the variance of the GAUC of one fit over seeds. ``oracle_share`` is the GAUC above 0.5 as a share of the
    oracle's. If a search has found the options of some models, ``searched`` marks them. If the test samples have requests or
    weights, the columns of `requests` and `weighted` follow, as means over seeds.

    A test set below the ``minimum`` gets no intervals and no p-values. A model that has randomness but only one seed gets
    intervals over users only and no p-value, since one fit cannot show how much another one would differ.

    Args:
        test: one row per test sample: ``user`` (integer), ``label`` [, ``true_probability``, ``request`` (integer), ``weight``].
        runs: predictions by model key.
        base: key of the model to compare with.
        second: key of another one; the best baseline by default.
        minimum: what the test set needs before there are intervals.

    Raises:
        InputError: columns are missing, predictions do not match the test samples, or no user has both classes.
    """
    _check_test(test)
    oracle = {}
    if "true_probability" in test:
        oracle = {ORACLE: _oracle_runs(test["true_probability"].to_numpy())}
    scored = {key: _score(test, key, model) for key, model in {**runs, **oracle}.items()}
    refusal = shortage(test["user"].to_numpy(), test["label"].to_numpy(), minimum or EvaluationParameters())
    results = pd.DataFrame([model.row for model in scored.values()])
    results = results.join(_against_chance(scored, refusal))
    if base in runs:
        results["rela_impr"] = _rela_impr(results, base)
    results = results.join(_against(scored, base, refusal, prefix=""))
    second = second or _best_baseline(runs)
    results["second"] = second
    results = results.join(_against(scored, second, refusal, prefix="second_"))
    if oracle:
        gain = results["gauc"] - CHANCE
        results["oracle_share"] = gain / gain.iloc[-1] if gain.iloc[-1] > 0 else np.nan
    searched = [run.searched for run in {**runs, **oracle}.values()]
    if any(searched):
        results["searched"] = searched
    columns = [*_columns(with_oracle=bool(oracle)), *_given_columns(test)]
    return results.reindex(columns=[*columns, *(["searched"] if any(searched) else [])])


def by_gauc(results: pd.DataFrame) -> pd.DataFrame:
    """Return a results table with the highest GAUC first, and the oracle last."""
    is_oracle = results["model"] == ORACLE
    models = results[~is_oracle].sort_values("gauc", ascending=False, kind="stable")
    return pd.concat([models, results[is_oracle]], ignore_index=True)


def _columns(*, with_oracle: bool) -> list[str]:
    share = ["oracle_share"] if with_oracle else []
    return [
        *("model", "name", "gauc", "gauc_std", "auc", "auc_std", "logloss", "rela_impr"),
        *("user_coverage", "impression_coverage", "seeds", "validation_gauc"),
        *("difference", "difference_low", "difference_high", "p_value", "p_holm"),
        *("second", "second_difference", "second_difference_low", "second_difference_high"),
        *("second_p_value", "second_p_holm", *share),
        *("train_seconds", "samples_per_second"),
        *("gauc_low", "gauc_high", "seed_variance", "interval_note", "second_interval_note"),
    ]


def _given_columns(test: pd.DataFrame) -> list[str]:
    """Return the columns of samples with requests or weights."""
    of_requests = REQUEST_METRICS if "request" in test else ()
    return [*of_requests, *(WEIGHTED_METRICS if "weight" in test else ())]


def _given_metrics(test: pd.DataFrame, probabilities: NDArray[np.floating]) -> dict[str, float]:
    """Compute the metrics of `_given_columns` as means over seeds."""
    labels, metrics = test["label"].to_numpy(), dict[str, float]()
    if "request" in test:
        metrics |= mean_request_metrics(test["request"].to_numpy(), labels, list(probabilities))
    if "weight" in test:
        weights = test["weight"].to_numpy()
        for name, metric in zip(WEIGHTED_METRICS, (weighted_auc, weighted_logloss), strict=True):
            metrics[name] = float(np.mean([metric(labels, p, weights) for p in probabilities]))
    return metrics


def _score(test: pd.DataFrame, key: str, model: ModelRuns) -> _Scored:
    _check_runs(test, key, model)
    users, labels = test["user"].to_numpy(), test["label"].to_numpy()
    try:
        per_seed = [per_user_auc(users, labels, p) for p in model.probabilities]
        gaucs = [user_aucs.gauc() for user_aucs in per_seed]
        aucs = [auc(labels, p) for p in model.probabilities]
        losses = [logloss(labels, p) for p in model.probabilities]
        given = _given_metrics(test, model.probabilities)
    except InputError as error:
        raise InputError(f"model {key}: {error}") from error
    row = {
        "model": key,
        "name": model.name,
        **_mean_and_std("gauc", [g.value for g in gaucs]),
        **_mean_and_std("auc", aucs),
        "logloss": float(np.mean(losses)),
        "user_coverage": gaucs[0].user_coverage,
        "impression_coverage": gaucs[0].impression_coverage,
        "seeds": len(model.seeds),
        "validation_gauc": model.validation_gauc,
        "train_seconds": float(np.mean(model.train_seconds)),
        "samples_per_second": float(np.mean(model.samples_per_second)),
        **given,
    }
    seeds = FIXED if model.deterministic else variance_over_seeds(per_seed) if len(per_seed) > 1 else None
    return _Scored(row, mean_over_seeds(per_seed), seeds)


def _mean_and_std(column: str, values: list[float]) -> dict[str, float]:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else np.nan
    return {column: float(np.mean(values)), f"{column}_std": deviation}


def _best_baseline(runs: Mapping[str, ModelRuns]) -> str | None:
    """Return the baseline with the highest validation GAUC, so that the test set does not choose it."""
    baselines = {
        key: run.validation_gauc
        for key, run in runs.items()
        if run.baseline and not np.isnan(run.validation_gauc)
    }
    return max(baselines, key=lambda key: baselines[key]) if baselines else None


def _against_chance(scored: Mapping[str, _Scored], refusal: str | None) -> pd.DataFrame:
    """Return the interval of each model's GAUC, and the variance of one fit's GAUC over seeds."""
    rows = []
    for model in scored.values():
        row = {"seed_variance": model.seeds.total if model.seeds else np.nan}
        if refusal is None:
            interval = chance_interval(model.users, seeds=[model.seeds] if model.seeds else [])
            row |= {"gauc_low": interval.low + CHANCE, "gauc_high": interval.high + CHANCE}
        rows.append(row)
    return pd.DataFrame(rows)


def _rela_impr(results: pd.DataFrame, base: str) -> list[float]:
    """Return RelaImpr by row; NaN if the GAUC of the base may be 0.5, because any gain is large relative to 0."""
    row = results[results["model"] == base].iloc[0]
    above = row.get("gauc_low", np.nan) > CHANCE
    return [rela_impr(value, row["gauc"]) if above else np.nan for value in results["gauc"]]


def _against(
    scored: Mapping[str, _Scored], base: str | None, refusal: str | None, *, prefix: str
) -> pd.DataFrame:
    """Return the difference of each model to one of them, with interval and p-value; NaN where nothing is compared.

    Holm's correction is for all models but the oracle.
    """
    columns = ["difference", "difference_low", "difference_high", "p_value", "p_holm", "interval_note"]
    against = pd.DataFrame(np.nan, index=list(scored), columns=columns).astype({"interval_note": object})
    if base is not None and base in scored:
        for key in scored:
            if key != base:
                against.loc[key, columns[:4]], note = _difference(scored[key], scored[base], refusal)
                against.loc[key, "interval_note"] = note
        models = against.index[against["p_value"].notna() & (against.index != ORACLE)]
        against.loc[models, "p_holm"] = holm(against.loc[models, "p_value"])
    return against.reset_index(drop=True).add_prefix(prefix)


def _difference(
    ours: _Scored, base: _Scored, refusal: str | None
) -> tuple[tuple[float, float, float, float], str | None]:
    """Return difference, low, high and p-value, and a note if the interval is missing or covers users only."""
    if refusal is not None:
        return (ours.users.gauc().value - base.users.gauc().value, np.nan, np.nan, np.nan), refusal
    seeds = [model.seeds for model in (ours, base) if model.seeds is not None]
    single = [model.name for model in (ours, base) if model.seeds is None]
    if not single:
        interval = difference_interval(ours.users, base.users, seeds=seeds)
        return (interval.difference, interval.low, interval.high, interval.p_value), None
    interval = difference_interval(ours.users, base.users)
    note = f"over users only: {' and '.join(single)} {'has' if len(single) == 1 else 'have'} one seed"
    return (interval.difference, interval.low, interval.high, np.nan), note


def _oracle_runs(true_probability: NDArray[np.floating]) -> ModelRuns:
    """Return the best predictions that a model can have: the probabilities from which the labels were drawn."""
    never = np.full(1, np.nan)
    return ModelRuns(
        ORACLE_NAME, (0,), true_probability[np.newaxis], train_seconds=never, samples_per_second=never,
        deterministic=True,
    )  # fmt: skip


def _check_test(test: pd.DataFrame) -> None:
    missing = [column for column in ("user", "label") if column not in test]
    if missing:
        raise InputError(
            f"test samples: column {', '.join(missing)} not found among {', '.join(test.columns)}; expected user and label, "
            "and true_probability where it is known"
        )


def _check_runs(test: pd.DataFrame, key: str, model: ModelRuns) -> None:
    expected = (len(model.seeds), len(test))
    if model.probabilities.shape != expected or not model.seeds:
        raise InputError(
            f"model {key}: found probabilities of shape {model.probabilities.shape}, expected {expected}, one row "
            "per seed (at least one) and one value per test sample; score the current test samples again"
        )
    for name in ("train_seconds", "samples_per_second"):
        found = getattr(model, name).shape
        if found != expected[:1]:
            raise InputError(
                f"model {key}: found {name} of shape {found}, expected one value for each seed, {expected[:1]}"
            )

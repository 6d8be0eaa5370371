"""The table of a dataset: each model's GAUC, its deviation over seeds, and what it gains over BaseModel."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import UserAUC, auc, logloss, per_user_auc, rela_impr
from deep_interest.evaluation.significance import mean_over_seeds, paired_bootstraps

ORACLE = "oracle"
ORACLE_NAME = "Oracle (true probability)"


@dataclass(frozen=True)
class ModelRuns:
    """One model's answers on the test set, from each of its seeds.

    Attributes:
        name: the papers' name of the model.
        seeds: (S,) the seeds; one for a model without randomness.
        probabilities: (S, n) float32 in [0, 1], in the order of the test rows.
        train_seconds: (S,) seconds of training.
        samples_per_second: (S,) training samples a second.
    """

    name: str
    seeds: tuple[int, ...]
    probabilities: NDArray[np.floating]
    train_seconds: NDArray[np.floating]
    samples_per_second: NDArray[np.floating]


def compare(
    test: pd.DataFrame,
    runs: Mapping[str, ModelRuns],
    *,
    base: str = "base",
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """One row a model, in the order of ``runs``; an oracle row last where the true probabilities are known.

    ``gauc``, ``auc``, ``logloss`` and the timings are means over seeds, ``*_std`` sample deviations over seeds
    (empty with one seed), ``rela_impr`` percent against the base on GAUC. ``difference`` is GAUC minus the base's
    with its 95 % interval over users (`significance.paired_bootstrap`); empty in the base's row, and in all rows
    if ``base`` is not among the runs. ``oracle_share`` is the share of the oracle's gain over 0.5 that is reached.

    Args:
        test: one row per test sample: ``user`` (integer), ``label`` [, ``true_probability``].
        runs: by model key.
        base: key of the model to compare with.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        InputError: columns missing, answers that do not match the test rows, or no user with both classes.
    """
    _check_test(test)
    oracle = {}
    if "true_probability" in test:
        oracle = {ORACLE: _oracle_runs(test["true_probability"].to_numpy())}
    scored = {key: _score(test, key, model) for key, model in {**runs, **oracle}.items()}
    results = pd.DataFrame([row for row, _ in scored.values()])
    results = results.join(
        _against_base(results, {k: u for k, (_, u) in scored.items()}, base, resamples, seed)
    )
    if oracle:
        gain = results["gauc"] - 0.5
        results["oracle_share"] = gain / gain.iloc[-1] if gain.iloc[-1] > 0 else np.nan
    return results[_columns(with_oracle=bool(oracle))]


def _columns(*, with_oracle: bool) -> list[str]:
    share = ["oracle_share"] if with_oracle else []
    return [
        *("model", "name", "gauc", "gauc_std", "auc", "auc_std", "logloss", "rela_impr"),
        *("user_coverage", "impression_coverage", "seeds"),
        *("difference", "difference_low", "difference_high", "p_value", *share),
        *("train_seconds", "samples_per_second"),
    ]


def _score(test: pd.DataFrame, key: str, model: ModelRuns) -> tuple[dict[str, object], UserAUC]:
    """The model's own part of its row, and each user's AUC averaged over the seeds."""
    _check_runs(test, key, model)
    users, labels = test["user"].to_numpy(), test["label"].to_numpy()
    try:
        per_seed = [per_user_auc(users, labels, p) for p in model.probabilities]
        gaucs = [user_aucs.gauc() for user_aucs in per_seed]
        aucs = [auc(labels, p) for p in model.probabilities]
        losses = [logloss(labels, p) for p in model.probabilities]
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
        "train_seconds": float(np.mean(model.train_seconds)),
        "samples_per_second": float(np.mean(model.samples_per_second)),
    }
    return row, mean_over_seeds(per_seed)


def _mean_and_std(column: str, values: list[float]) -> dict[str, float]:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
    return {column: float(np.mean(values)), f"{column}_std": deviation}


def _against_base(
    results: pd.DataFrame, user_aucs: Mapping[str, UserAUC], base: str, resamples: int, seed: int
) -> pd.DataFrame:
    """RelaImpr and the paired intervals, one row a model; NaN where there is nothing to compare."""
    columns = ["rela_impr", "difference", "difference_low", "difference_high", "p_value"]
    against = pd.DataFrame(np.nan, index=results.index, columns=columns)
    if base not in user_aucs:
        return against
    base_gauc = results.loc[results["model"] == base, "gauc"].item()
    against["rela_impr"] = [rela_impr(value, base_gauc) for value in results["gauc"]]
    others = [key for key in user_aucs if key != base]
    if others:
        intervals = paired_bootstraps(
            [user_aucs[key] for key in others], user_aucs[base], resamples=resamples, seed=seed
        )
        against.loc[(results["model"] != base).to_numpy(), columns[1:]] = [
            (i.difference, i.low, i.high, i.p_value) for i in intervals
        ]
    return against


def _oracle_runs(true_probability: NDArray[np.floating]) -> ModelRuns:
    """The best any model can do: the probabilities from which the labels were drawn."""
    never = np.full(1, np.nan)
    return ModelRuns(
        ORACLE_NAME, (0,), true_probability[np.newaxis], train_seconds=never, samples_per_second=never
    )


def _check_test(test: pd.DataFrame) -> None:
    missing = [column for column in ("user", "label") if column not in test]
    if missing:
        raise InputError(
            f"test rows: column {', '.join(missing)} not found among {', '.join(test.columns)}; expected user and label, "
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

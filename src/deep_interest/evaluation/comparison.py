"""The table of a dataset: each model's GAUC, its deviation over seeds, and what it gains over BaseModel."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import UserAUC, auc, logloss, per_user_auc, rela_impr
from deep_interest.evaluation.significance import holm, mean_over_seeds, paired_bootstraps

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
        baseline: one of those that the others are measured against.
        validation_gauc: mean over seeds of the selected evaluation's; NaN if nothing was selected by it.
    """

    name: str
    seeds: tuple[int, ...]
    probabilities: NDArray[np.floating]
    train_seconds: NDArray[np.floating]
    samples_per_second: NDArray[np.floating]
    baseline: bool = False
    validation_gauc: float = float("nan")


def compare(
    test: pd.DataFrame,
    runs: Mapping[str, ModelRuns],
    *,
    base: str = "base",
    second: str | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """One row a model, in the order of ``runs``; an oracle row last where the true probabilities are known.

    ``gauc``, ``auc``, ``logloss`` and the timings are means over seeds, ``*_std`` sample deviations over seeds
    (empty with one seed), ``rela_impr`` percent against the base on GAUC. ``difference`` is GAUC minus the base's
    with its 95 % interval over users (`significance.paired_bootstrap`) and its p-value, corrected by Holm for all rows
    of the column; empty in the base's row, and in all rows if ``base`` is not among the runs. The columns ``second_*`` say
    the same against the row ``second``: if none is named, the baseline of the highest validation GAUC. ``oracle_share`` is the share of
    the oracle's gain over 0.5 that is reached.

    Args:
        test: one row per test sample: ``user`` (integer), ``label`` [, ``true_probability``].
        runs: by model key.
        base: key of the model to compare with.
        second: key of another one; the best baseline if left out.
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
    user_aucs = {key: users for key, (_, users) in scored.items()}
    if base in runs:
        base_gauc = results.loc[results["model"] == base, "gauc"].item()
        results["rela_impr"] = [rela_impr(value, base_gauc) for value in results["gauc"]]
    results = results.join(_against(user_aucs, base, resamples, seed, prefix=""))
    second = second or _best_baseline(runs)
    results["second"] = second
    results = results.join(_against(user_aucs, second, resamples, seed, prefix="second_"))
    if oracle:
        gain = results["gauc"] - 0.5
        results["oracle_share"] = gain / gain.iloc[-1] if gain.iloc[-1] > 0 else np.nan
    return results.reindex(columns=_columns(with_oracle=bool(oracle)))


def _columns(*, with_oracle: bool) -> list[str]:
    share = ["oracle_share"] if with_oracle else []
    return [
        *("model", "name", "gauc", "gauc_std", "auc", "auc_std", "logloss", "rela_impr"),
        *("user_coverage", "impression_coverage", "seeds", "validation_gauc"),
        *("difference", "difference_low", "difference_high", "p_value", "p_holm"),
        *("second", "second_difference", "second_difference_low", "second_difference_high"),
        *("second_p_value", "second_p_holm", *share),
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
        "validation_gauc": model.validation_gauc,
        "train_seconds": float(np.mean(model.train_seconds)),
        "samples_per_second": float(np.mean(model.samples_per_second)),
    }
    return row, mean_over_seeds(per_seed)


def _mean_and_std(column: str, values: list[float]) -> dict[str, float]:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
    return {column: float(np.mean(values)), f"{column}_std": deviation}


def _best_baseline(runs: Mapping[str, ModelRuns]) -> str | None:
    """The baseline of the highest validation GAUC: chosen without a look at the test set."""
    baselines = {
        key: run.validation_gauc for key, run in runs.items() if run.baseline and run.validation_gauc > 0
    }
    return max(baselines, key=lambda key: baselines[key]) if baselines else None


def _against(
    user_aucs: Mapping[str, UserAUC], base: str | None, resamples: int, seed: int, *, prefix: str
) -> pd.DataFrame:
    """The paired intervals against one row, for each row; NaN where there is nothing to compare.

    Holm's correction is over the models; the oracle is none.
    """
    columns = ["difference", "difference_low", "difference_high", "p_value", "p_holm"]
    against = pd.DataFrame(np.nan, index=list(user_aucs), columns=columns)
    others = [key for key in user_aucs if key != base]
    if base in user_aucs and others:
        intervals = paired_bootstraps(
            [user_aucs[key] for key in others], user_aucs[base], resamples=resamples, seed=seed
        )
        against.loc[others, columns[:4]] = [(i.difference, i.low, i.high, i.p_value) for i in intervals]
        models = [key for key in others if key != ORACLE]
        against.loc[models, "p_holm"] = holm(against.loc[models, "p_value"])
    return against.reset_index(drop=True).add_prefix(prefix)


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

"""GAUC against the amount of data, the length of the history or the embedding width, with paired intervals."""

from itertools import pairwise

import numpy as np
import pandas as pd

from deep_interest.evaluation.comparison import ModelRuns, compare
from deep_interest.evaluation.evidence import EvaluationParameters

_OF_SETTING = ("samples", "users")
_METRICS = ("gauc", "gauc_std", "gauc_low", "gauc_high", "validation_gauc", "train_seconds", "seeds")
_DIFFERENCE = ("difference", "difference_low", "difference_high", "p_value", "p_holm", "interval_note")
_GAIN = ("gain", "gain_low", "gain_high")
COLUMNS = ("axis", "value", "setting", *_OF_SETTING, *_METRICS, *_DIFFERENCE, *_GAIN)


def worth_table(
    test: pd.DataFrame,
    fits: pd.DataFrame,
    scores: pd.DataFrame,
    *,
    minimum: EvaluationParameters | None = None,
) -> pd.DataFrame:
    """Return the curves: one row per axis and value, in ascending order.

    Args:
        test: one row per test sample: ``user`` (integer) and ``label``.
        fits: one row per axis, value and seed: ``axis``, ``value``, ``setting``, ``seed``, ``samples``, ``users``, ``validation_gauc``,
            ``train_seconds``.
        scores: ``<setting>_seed_<k>``: predicted CTR of the test samples.
        minimum: what the test set needs before there are intervals.

    Returns:
        `COLUMNS`: means over seeds; ``difference`` to the largest value of the axis, with its 95 % interval over users and seeds
        (`significance`) and a p-value that is corrected by Holm over the axis; and ``gain``, the difference to the next smaller value.
    """
    tables = [
        _curve(test, of_axis.sort_values("value", kind="stable"), scores, minimum)
        for _, of_axis in fits.groupby("axis", sort=False)
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(COLUMNS))


def format_value(axis: str, value: float) -> str:
    """Return a value of an axis as text; users are a share, in percent."""
    return f"{100 * value:.3g} %" if axis == "users" else f"{value:,.0f}"


def _curve(
    test: pd.DataFrame, fits: pd.DataFrame, scores: pd.DataFrame, minimum: EvaluationParameters | None
) -> pd.DataFrame:
    runs = {
        str(setting): _runs(rows, scores[[f"{setting}_seed_{seed}" for seed in rows["seed"]]].to_numpy().T)
        for setting, rows in fits.groupby("setting", sort=False)
    }
    settings = list(runs)
    table = compare(test, runs, base=settings[-1], minimum=minimum)
    table = table[table["model"].isin(settings)].rename(columns={"model": "setting"})
    first = fits.groupby("setting", sort=False)[["axis", "value"]].first()
    means = fits.groupby("setting", sort=False)[list(_OF_SETTING)].mean()
    table = table.join(first, on="setting").join(means, on="setting")
    gains = [
        [np.nan] * 3,
        *(_gain(test, runs, pair, minimum) for pair in pairwise(settings)),
    ]
    return table.assign(**dict(zip(_GAIN, np.transpose(gains), strict=True)))[list(COLUMNS)]


def _runs(fits: pd.DataFrame, probabilities: np.ndarray) -> ModelRuns:
    seconds = fits["train_seconds"].to_numpy(float)
    return ModelRuns(
        name=str(fits["setting"].iloc[0]), seeds=tuple(fits["seed"]), probabilities=probabilities, train_seconds=seconds,
        samples_per_second=np.full(len(fits), np.nan), validation_gauc=float(fits["validation_gauc"].mean()),
    )  # fmt: skip


def _gain(
    test: pd.DataFrame,
    runs: dict[str, ModelRuns],
    pair: tuple[str, str],
    minimum: EvaluationParameters | None,
) -> list[float]:
    """Return what a value adds to the next smaller one, with its interval."""
    smaller, larger = pair
    table = compare(test, {key: runs[key] for key in pair}, base=smaller, minimum=minimum)
    row = table[table["model"] == larger].iloc[0]
    return [row["difference"], row["difference_low"], row["difference_high"]]

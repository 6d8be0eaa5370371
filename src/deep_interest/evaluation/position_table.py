"""Effect of each slot: learned in training, estimated on the test set given a model's predictions, and as the raw CTR shows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logit, stdtrit

from deep_interest.evaluation.metrics import PROBABILITY_CLIP
from deep_interest.evaluation.position import slot_effects

FORMS = ("examination", "log_odds")
COLUMNS = (
    "model", "name", "form", "slot", "samples", "ctr", "raw", "raw_low", "raw_high", "learned", "learned_low", "learned_high",
    "estimate", "estimate_low", "estimate_high",
)  # fmt: skip


@dataclass(frozen=True)
class PositionRuns:
    """What the table needs of a model that has learned the effect of slots.

    Attributes:
        name: name of the model.
        form: ``examination`` (relative to the reference slot) or ``log_odds`` (difference to it).
        learned: ``(seeds, K)`` learned effect of slot k + 1; NaN for slots without training samples.
        probabilities: ``(seeds, n)`` predictions of the test samples.
        reference: slot that the model scores for.
    """

    name: str
    form: str
    learned: NDArray[np.float64]
    probabilities: NDArray[np.floating]
    reference: int


def learned_effects(curves: pd.DataFrame, selection: str) -> tuple[str, NDArray[np.float64]] | None:
    """Return the form of the effects in a model's learning curves, and those of the selected evaluation of each seed, ``(seeds, K)``.

    Args:
        curves: one row per seed and evaluation.
        selection: metric that selected the evaluation.

    Returns:
        None if the model has learned no effects.
    """
    column = f"validation_{selection}"
    for form in FORMS:
        names = [name for name in curves if name.startswith(f"{form}_")]
        if not names:
            continue
        if column in curves:
            by_seed = curves.groupby("seed")[column]
            chosen = curves.loc[by_seed.idxmin() if selection == "logloss" else by_seed.idxmax()]
        else:
            chosen = curves.groupby("seed").tail(1)
        return form, chosen[sorted(names, key=lambda name: int(name.rsplit("_", 1)[1]))].to_numpy(np.float64)
    return None


def position_table(test: pd.DataFrame, runs: Mapping[str, PositionRuns]) -> pd.DataFrame:
    """Return the effect of each slot by model, with 95 % intervals.

    Args:
        test: one row per test sample: ``user``, ``label`` and ``slot`` (0 if it is not known).
        runs: models that have learned effects, by key.

    Returns:
        One row per model and slot (`COLUMNS`). ``raw`` is the CTR relative to that of the reference slot (for ``log_odds``, the difference of their
        log-odds) and ``estimate`` the effect given the predictions, both on the test set with intervals over users; ``learned`` is the
        mean over seeds, with an interval over seeds if there are several.
    """
    known = (test["slot"] > 0).to_numpy()
    rows = [_rows(test[known], key, of, known) for key, of in runs.items()] if known.any() else []
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=COLUMNS)


def _rows(test: pd.DataFrame, key: str, of: PositionRuns, known: NDArray[np.bool_]) -> pd.DataFrame:
    slots, labels = test["slot"].to_numpy(), test["label"].to_numpy()
    count = int(slots.max())
    p = of.probabilities[:, known].mean(axis=0).clip(PROBABILITY_CLIP, 1 - PROBABILITY_CLIP)
    form: Literal["logit", "examination"] = "examination" if of.form == "examination" else "logit"
    table = pd.DataFrame({"model": key, "name": of.name, "form": of.form, "slot": np.arange(1, count + 1)})
    table["samples"] = np.bincount(slots, minlength=count + 1)[1:]
    clicks = np.bincount(slots, weights=labels, minlength=count + 1)[1:]
    table["ctr"] = np.divide(clicks, table["samples"], out=np.full(count, np.nan), where=table["samples"] > 0)
    for column, logits in (("raw", np.zeros(len(p))), ("estimate", logit(p.astype(np.float64)))):
        found = slot_effects(
            test["user"].to_numpy(), slots, labels, logits, form=form, reference=of.reference
        )
        table[column], table[f"{column}_low"], table[f"{column}_high"] = found.value, found.low, found.high
    table[["learned", "learned_low", "learned_high"]] = _over_seeds(of.learned, count)
    return table[list(COLUMNS)]


def _over_seeds(learned: NDArray[np.float64], slots: int) -> NDArray[np.float64]:
    """Return mean and 95 % interval over seeds, ``(slots, 3)``; a slot that training has not seen is NaN."""
    padded = np.full((len(learned), slots), np.nan)
    shared = min(slots, learned.shape[1])
    padded[:, :shared] = learned[:, :shared]
    mean, seeds = padded.mean(axis=0), len(padded)
    width = np.full(slots, np.nan)
    if seeds > 1:
        width = stdtrit(seeds - 1, 0.975) * padded.std(axis=0, ddof=1) / np.sqrt(seeds)
    return np.stack([mean, mean - width, mean + width], axis=1)

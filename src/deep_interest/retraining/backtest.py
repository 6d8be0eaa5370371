"""Replay a log day by day, to compare the gain and the cost of retraining strategies."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.evaluation.metrics import gauc, logloss
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.retraining.fitted import FittedModel
from deep_interest.retraining.fitting import fit_challenger, held_out_scores
from deep_interest.retraining.parameters import STRATEGIES, RetrainingParameters
from deep_interest.retraining.plan import with_replay
from deep_interest.retraining.rows import NO_ROWS, Before, assign_rows, vocabularies_with, with_rows
from deep_interest.retraining.runs import overrides_of
from deep_interest.retraining.window import encode_window, until
from deep_interest.training.runs import Experiment

logger = logging.getLogger(__name__)

COMPARED = ("frozen", *STRATEGIES)


@dataclass
class _Replay:
    """A strategy with one seed."""

    strategy: str
    fitted: FittedModel
    vocabularies: FieldVocabularies
    samples: int = 0
    seconds: float = 0.0


def backtest(
    read: Callable[[Sequence[str]], CanonicalTables],
    days: Sequence[str],
    experiment: Experiment,
    *,
    warm_up: int,
    seeds: Sequence[int],
    retraining: RetrainingParameters,
    protocol: ProtocolParameters,
    features: FeatureColumns,
    workspace: Path,
) -> pd.DataFrame:
    """Evaluate each strategy on each day after the warm-up, with models trained on earlier days.

    On day t, models have been trained on days up to t - 1: ``frozen`` only on the first ``warm_up`` days, ``full_window`` from
    scratch on the last ``window_days`` before t, warm starts on day t - 1 and the ``replay_days`` before it, starting from
    the model of the day before. Every new model is used, without a gate.

    Args:
        read: reads the log of some days.
        days: valid days, in order.
        experiment: the experiment.
        warm_up: number of first days that train the initial model of all strategies.
        seeds: one replay per seed.
        retraining: window, training options, teacher.
        protocol, features: protocol and feature columns of the dataset.
        workspace: folder of the running fits.

    Returns:
        One row per day, strategy and seed: ``day, strategy, seed, gauc, logloss, calibration, samples, seconds``; the last two
        are the cost of the evaluated model.
    """
    log = read(days)
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        replays: dict[str, _Replay] = {}
        for number in range(warm_up, len(days)):
            for strategy in COMPARED:
                before = replays.get(strategy)
                begin = number == warm_up
                if begin:
                    train = days[:warm_up]
                elif strategy == "full_window":
                    train = days[:number][-retraining.window_days :]
                else:
                    window = days[:number][-retraining.window_days :]
                    train = with_replay(window, [days[number - 1]], retraining.replay_days)
                tables = until(log, days[number])
                if begin and replays:  # all strategies share the initial model
                    first = next(iter(replays.values()))
                    replays[strategy] = replace(
                        first,
                        strategy=strategy,
                        vocabularies=FieldVocabularies(dict(first.vocabularies.fields)),
                    )
                    rows.append({**rows[-1], "strategy": strategy})
                    continue
                vocabularies = (
                    before.vocabularies if before and strategy != "full_window" else FieldVocabularies()
                )
                if strategy == "frozen" and before:
                    vocabularies = FieldVocabularies(before.vocabularies.fields, frozen=True)
                data = encode_window(
                    tables, train=train, held_out=days[number], protocol=protocol, features=features,
                    vocabularies=vocabularies,
                )  # fmt: skip
                of_tables = NO_ROWS
                if strategy != "frozen" or before is None:
                    warm = before is not None and strategy in STRATEGIES[1:]
                    of_tables = assign_rows(
                        tables, features, retraining.rows, vocabularies, held_out=days[number],
                        before=Before(before.fitted.schema.tables, days[number - 1]) if before is not None and warm else None,
                    )  # fmt: skip
                    fitted = fit_challenger(
                        experiment, data, overrides=overrides_of(experiment, retraining, warm=warm), seed=seed,
                        state_file=workspace / f"{strategy}.pt", parent=before.fitted.as_parent() if before is not None and warm else None,
                        teacher_weight=retraining.teacher_weight if warm and strategy == STRATEGIES[2] else 0.0, rows=of_tables,
                    )  # fmt: skip
                    replays[strategy] = _Replay(
                        strategy,
                        fitted,
                        vocabularies_with(vocabularies, of_tables),
                        fitted.samples,
                        fitted.seconds,
                    )
                else:
                    replays[strategy] = replace(before, samples=0, seconds=0.0)
                rows.append(
                    _evaluation(replays[strategy], with_rows(data, of_tables), experiment, days[number], seed)
                )
                logger.info("%s, seed %d, %s: GAUC %.4f", days[number], seed, strategy, rows[-1]["gauc"])
    return pd.DataFrame(rows)


def _evaluation(replay: _Replay, data: Any, experiment: Experiment, day: str, seed: int) -> dict[str, Any]:
    fitted = replay.fitted
    scores = held_out_scores(fitted.model(experiment.model), fitted.schema, data, experiment, fitted.training)
    held_out = data.samples[data.samples["split"] == "test"]
    labels = held_out["label"].to_numpy()
    return {
        "day": day, "strategy": replay.strategy, "seed": seed, "gauc": gauc(held_out["user"], labels, scores).value,
        "logloss": logloss(labels, scores), "calibration": float(np.mean(scores, dtype=np.float64) / labels.mean()),
        "samples": replay.samples, "seconds": replay.seconds,
    }  # fmt: skip


def backtest_summary(results: pd.DataFrame) -> pd.DataFrame:
    """Summarise each strategy over all days after the first one.

    Returns:
        ``strategy, gauc`` (mean over days and seeds), ``to_full_window`` (difference to the full window), ``standard_error`` (of
        the difference, over days and seeds), ``logloss, calibration, samples, seconds`` (per day), ``cost`` (seconds relative to
        the full window), ``sample_cost`` (samples relative to the full window).
    """
    later = results[results["day"] > results["day"].min()]
    by_day_and_seed = later.pivot(index=["day", "seed"], columns="strategy", values="gauc")
    means = later.groupby("strategy")[["gauc", "logloss", "calibration", "samples", "seconds"]].mean()
    rows = []
    for strategy in COMPARED:
        difference = by_day_and_seed[strategy] - by_day_and_seed["full_window"]
        one = means.loc[strategy]
        rows.append(
            {
                "strategy": strategy, "gauc": one["gauc"], "to_full_window": difference.mean(),
                "standard_error": difference.std() / np.sqrt(len(difference)), "logloss": one["logloss"],
                "calibration": one["calibration"], "samples": one["samples"], "seconds": one["seconds"],
                "cost": one["seconds"] / means.loc["full_window", "seconds"],
                "sample_cost": one["samples"] / means.loc["full_window", "samples"],
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def backtest_page(summary: pd.DataFrame, results: pd.DataFrame, refused: dict[str, str]) -> str:
    """Format the summary and the refused days as a Markdown page."""
    days = sorted(results["day"].unique())
    lines = [
        "# Backtest of retraining strategies",
        "",
        f"{len(days)} days from {days[0]} to {days[-1]}, {results['seed'].nunique()} seeds; each model is evaluated on a day that it "
        "has not been trained on. Means over all days except the first, on which all strategies have the same model.",
        "",
        "| strategy | GAUC | to full window | log loss | calibration | samples per day | seconds per day | seconds relative to full window |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in summary.itertuples():
        to_full = (
            "–" if row.strategy == "full_window" else f"{row.to_full_window:+.4f} ± {row.standard_error:.4f}"
        )
        lines.append(
            f"| {row.strategy.replace('_', ' ')} | {row.gauc:.4f} | {to_full} | {row.logloss:.4f} | {row.calibration:.3f} | "
            f"{row.samples:,.0f} | {row.seconds:.2f} | {row.cost:.1%} |"
        )
    lines += ["", "± is the standard error over days and seeds.", ""]
    lines += [f"Excluded by the data checks: {day} ({why})." for day, why in refused.items()]
    return "\n".join([*lines, ""])

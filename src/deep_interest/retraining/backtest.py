"""A replay of a log day by day: what each way of keeping a model fresh gains, and what it costs."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.evaluation.metrics import gauc, logloss
from deep_interest.logs.encoding import FeatureColumns
from deep_interest.logs.protocols import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.retraining.days import day_number
from deep_interest.retraining.fitting import Fitted, fit_challenger, held_out_scores
from deep_interest.retraining.parameters import STRATEGIES, RetrainingParameters
from deep_interest.retraining.plan import with_replay
from deep_interest.retraining.runs import overrides_of
from deep_interest.retraining.window import encode_window
from deep_interest.training.runs import Experiment

logger = logging.getLogger(__name__)

WAYS = ("frozen", *STRATEGIES)


@dataclass
class _Replay:
    """One way of keeping one seed's model fresh."""

    way: str
    fitted: Fitted
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
    """Judge every way on every day after the warm-up, then let it learn from the days before that day.

    On day t a model has been trained on days up to t - 1: the frozen one on the first ``warm_up`` days alone, a full
    window anew on the last ``window_days`` before t, the warm starts on day t - 1 and the ``replay_days`` before it, going on from the model of the day before.
    Every way takes its new model, without a gate.

    Args:
        read: the log of some days.
        days: good days, in order.
        experiment: the row.
        warm_up: that many first days train the model that all ways begin with.
        seeds: one replay each.
        retraining: window, training options, teacher.
        protocol, features: of the dataset.
        workspace: folder of the running fits.

    Returns:
        A row for each day, way and seed: ``day, way, seed, gauc, logloss, calibration, samples, seconds``; the last two are what
        was spent on the model that was judged.
    """
    whole = read(days)
    rows = []
    for seed in seeds:
        replays: dict[str, _Replay] = {}
        for number in range(warm_up, len(days)):
            for way in WAYS:
                before = replays.get(way)
                begin = number == warm_up
                if begin:
                    train = days[:warm_up]
                elif way == "full_window":
                    train = days[:number][-retraining.window_days :]
                else:
                    window = days[:number][-retraining.window_days :]
                    train = with_replay(window, [days[number - 1]], retraining.replay_days)
                tables = _until(whole, days[number])
                if begin and replays:  # the model of the warm-up is one for all ways
                    first = next(iter(replays.values()))
                    replays[way] = replace(
                        first, way=way, vocabularies=FieldVocabularies(dict(first.vocabularies.fields))
                    )
                    rows.append({**rows[-1], "way": way})
                    continue
                vocabularies = before.vocabularies if before and way != "full_window" else FieldVocabularies()
                if way == "frozen" and before:
                    vocabularies = FieldVocabularies(before.vocabularies.fields, frozen=True)
                data = encode_window(
                    tables, train=train, held_out=days[number], protocol=protocol, features=features,
                    vocabularies=vocabularies,
                )  # fmt: skip
                if way != "frozen" or before is None:
                    warm = before is not None and way in STRATEGIES[1:]
                    fitted = fit_challenger(
                        experiment, data, overrides=overrides_of(experiment, retraining, warm=warm), seed=seed,
                        state_file=workspace / f"{way}.pt", parent=before.fitted.as_parent() if warm else None,
                        teacher_weight=retraining.teacher_weight if warm and way == STRATEGIES[2] else 0.0,
                    )  # fmt: skip
                    replays[way] = _Replay(way, fitted, vocabularies, fitted.samples, fitted.seconds)
                else:
                    replays[way] = replace(before, samples=0, seconds=0.0)
                rows.append(_judged(replays[way], data, experiment, days[number], seed))
                logger.info("%s, seed %d, %s: GAUC %.4f", days[number], seed, way, rows[-1]["gauc"])
    return pd.DataFrame(rows)


def _until(tables: CanonicalTables, day: str) -> CanonicalTables:
    """What was known by the end of a day."""
    number = day_number(day)
    done, shown = tables.behaviors, tables.impressions
    return replace(
        tables,
        behaviors=done[done["day"] <= number].reset_index(drop=True),
        impressions=shown[shown["day"] <= number].reset_index(drop=True),
    )


def _judged(replay: _Replay, data: Any, experiment: Experiment, day: str, seed: int) -> dict[str, Any]:
    fitted = replay.fitted
    scores = held_out_scores(fitted.model(experiment.model), fitted.schema, data, experiment, fitted.training)
    held_out = data.samples[data.samples["split"] == "test"]
    labels = held_out["label"].to_numpy()
    return {
        "day": day, "way": replay.way, "seed": seed, "gauc": gauc(held_out["user"], labels, scores).value,
        "logloss": logloss(labels, scores), "calibration": float(np.mean(scores, dtype=np.float64) / labels.mean()),
        "samples": replay.samples, "seconds": replay.seconds,
    }  # fmt: skip


def backtest_summary(results: pd.DataFrame) -> pd.DataFrame:
    """A row for each way, after the day that all begin on.

    Returns:
        ``way, gauc`` (mean over days and seeds), ``to_full_window`` (its difference), ``standard_error`` (of that difference, over
        days and seeds), ``logloss, calibration, samples, seconds`` (a day), ``cost`` (seconds as a share of the full window's),
        ``sample_cost`` (the same of samples).
    """
    later = results[results["day"] > results["day"].min()]
    by_day_and_seed = later.pivot(index=["day", "seed"], columns="way", values="gauc")
    means = later.groupby("way")[["gauc", "logloss", "calibration", "samples", "seconds"]].mean()
    rows = []
    for way in WAYS:
        difference = by_day_and_seed[way] - by_day_and_seed["full_window"]
        one = means.loc[way]
        rows.append(
            {
                "way": way, "gauc": one["gauc"], "to_full_window": difference.mean(),
                "standard_error": difference.std() / np.sqrt(len(difference)), "logloss": one["logloss"],
                "calibration": one["calibration"], "samples": one["samples"], "seconds": one["seconds"],
                "cost": one["seconds"] / means.loc["full_window", "seconds"],
                "sample_cost": one["samples"] / means.loc["full_window", "samples"],
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def backtest_page(summary: pd.DataFrame, results: pd.DataFrame, refused: dict[str, str]) -> str:
    """The summary and what was refused as a Markdown page."""
    days = sorted(results["day"].unique())
    lines = [
        "# Backtest: ways of keeping a model fresh",
        "",
        f"{len(days)} days from {days[0]} to {days[-1]}, {results['seed'].nunique()} seeds; each model is judged on a day that it has "
        "not been trained on. Means over the days after the first, on which all ways have the same model.",
        "",
        "| way | GAUC | to full window | log loss | calibration | samples a day | seconds a day | share of the full window's seconds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in summary.itertuples():
        to_full = "–" if row.way == "full_window" else f"{row.to_full_window:+.4f} ± {row.standard_error:.4f}"
        lines.append(
            f"| {row.way.replace('_', ' ')} | {row.gauc:.4f} | {to_full} | {row.logloss:.4f} | {row.calibration:.3f} | "
            f"{row.samples:,.0f} | {row.seconds:.2f} | {row.cost:.1%} |"
        )
    lines += ["", "± is the standard error over days and seeds.", ""]
    lines += [f"Refused by the checks, and left out: {day} ({why})." for day, why in refused.items()]
    return "\n".join([*lines, ""])

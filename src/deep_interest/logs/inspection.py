"""Inspect a log: counts, shares, histories and warnings to read before training a model on it."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd

from deep_interest.logs.encoded_log import EncodedLog, encode_log
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.history_ranges import history_ends
from deep_interest.logs.impressions import ImpressionSamples, impression_samples, requests_of
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.protocols import catalogue_samples, target_behaviors
from deep_interest.logs.samples import SPLITS, TEST, Samples
from deep_interest.logs.suspicions import suspicions, ticks_per_second
from deep_interest.logs.suspicious_times import whole_days_of_behaviors
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import Vocabulary

_LENGTHS = (0, 1, 5, 10, 20, 50, 100)
_BAR_WIDTH = 40  # characters
_TIES = "samples whose history has behaviours of their own time"


@dataclass(frozen=True)
class Inspection:
    """Result of an inspection.

    Attributes:
        counts: counts by name.
        period: first and last time as strings (UTC); None for a log without times.
        days: one row per day of impressions: ``day, split, rows, ctr``; None if they are not split by day.
        shares: shares of the impressions by name, or of the samples of a log without impressions.
        history_lengths: ``{range: samples}``.
        warnings: one sentence each.
        histories_of: heading of the lengths.
    """

    counts: dict[str, int]
    period: tuple[str, str] | None
    days: pd.DataFrame | None
    shares: dict[str, float]
    history_lengths: dict[str, int]
    warnings: tuple[str, ...]
    histories_of: str = "behaviours of a user"


def inspect_log(
    tables: CanonicalTables, protocol: ProtocolParameters, features: FeatureColumns, *, has_times: bool = True
) -> Inspection:
    """Inspect sorted canonical tables.

    Args:
        tables: result of ``canonical``.
        protocol: protocol of the dataset, for the split.
        features: feature columns.
        has_times: whether the times are times; otherwise they are positions in the source's files.

    Raises:
        InputError: the log does not fit the protocol.
    """
    log = encode_log(tables, users=_ids(tables), items=Vocabulary.fit(tables.items["item"]))
    log = replace(log, target=target_behaviors(tables.behaviors, protocol))
    counts = {
        "behaviors": len(tables.behaviors),
        "users with behaviors": len(np.unique(log.user)),
        "items": len(tables.items),
    }
    times = tables.behaviors["time"]
    shares: dict[str, float] = {}
    warnings: list[str] = []
    days, lengths = None, log.length[log.length > 0]
    if tables.impressions is not None:
        made = impression_samples(tables.impressions, log, protocol, features=features)
        counts |= {
            "impressions": len(tables.impressions),
            "users with impressions": tables.impressions["user"].nunique(),
        }
        lengths, shares = made.samples.history_end, _shares(made)
        days = None if made.day is None else _days(made.day, made.samples)
        times = tables.impressions["time"]
        if log.given_segment is None:
            times = pd.concat([times, tables.behaviors["time"]])
        else:
            counts["distinct histories"] = int((log.length > 0).sum())
        if "request" in tables.impressions:
            counts["requests"] = len(np.unique(requests_of(tables.impressions)))
        warnings += map(str, made.uncovered)
    elif has_times:
        shares[_TIES] = tied = _tied_histories(log, catalogue_samples(log, protocol))
        warnings += whole_days_of_behaviors(times, ticks_per_second(times), protocol, tied)
    facts = {f"left out: {reason}": rows for reason, rows in tables.left_out.items()}
    return Inspection(
        counts | facts | tables.notes,
        _written(times) if has_times else None,
        days,
        shares,
        _histogram(lengths),
        (*warnings, *suspicions(tables, log, protocol, features)),
        "behaviours of a user" if tables.impressions is None else "behaviours before an impression",
    )


def report_lines(inspection: Inspection) -> list[str]:
    """Format an inspection as lines for a terminal."""
    width = max(len(name) for name in [*inspection.counts, *inspection.shares])
    lines = [f"{name:<{width}}  {count:>12,}" for name, count in inspection.counts.items()]
    lines += [f"{name:<{width}}  {share:>12.1%}" for name, share in inspection.shares.items()]
    period = "no times: the rows of the files are in order"
    if inspection.period is not None:
        period = f"from {inspection.period[0]} to {inspection.period[1]} (UTC)"
    lines += ["", period]
    if inspection.days is not None:
        lines += [
            "",
            inspection.days.to_string(
                index=False, formatters={"ctr": "{:.4f}".format, "rows": "{:,}".format}
            ),
        ]
    lines += ["", inspection.histories_of]
    most = max(inspection.history_lengths.values())
    lines += [
        f"{name:>8}  {count:>12,}  {'█' * round(_BAR_WIDTH * count / most)}"
        for name, count in inspection.history_lengths.items()
    ]
    if inspection.warnings:
        lines += ["", *(f"warning: {warning}" for warning in inspection.warnings)]
    return lines


def split_lines(summary: pd.DataFrame) -> list[str]:
    """Format the counts of a samples summary for a terminal: one row per split."""
    columns = ["rows", "positives", "users", "items", "mean_history", "max_history"]
    counts = summary.set_index("split").loc[list(SPLITS), columns]
    counts.columns = [name.replace("_", " ") for name in columns]
    counts.index.name = None
    formats = {"mean history": "{:.1f}".format}
    return [counts.to_string(formatters={name: formats.get(name, "{:,}".format) for name in counts})]


def unknown_lines(summary: pd.DataFrame) -> list[str]:
    """Format the unknown shares of a samples summary for a terminal: one row per field, one column per split."""
    columns = [name for name in summary if name.startswith("unknown_")]
    shares = summary.set_index("split").loc[list(SPLITS), columns].T
    shares.index = [name.removeprefix("unknown_") for name in columns]
    shares.columns.name = None
    return [
        "rows whose value is missing or in no training sample",
        shares.to_string(float_format="{:.1%}".format),
    ]


def _tied_histories(log: EncodedLog, samples: Samples) -> float:
    """Return the share of samples whose history contains behaviours at the sample's own time."""
    return float((history_ends(log, samples.user, samples.time) < samples.history_end).mean())


def _ids(tables: CanonicalTables) -> Vocabulary:
    shown = [] if tables.impressions is None else [tables.impressions["user"]]
    return Vocabulary.fit(tables.behaviors["user"], *shown)


def _written(times: pd.Series) -> tuple[str, str]:
    """Return the first and the last time as strings."""
    unit = ticks_per_second(times)
    first, last = (str(np.datetime64(int(time) // unit, "s")) for time in (times.min(), times.max()))
    return first.replace("T", " "), last.replace("T", " ")


def _days(day: np.ndarray, samples: Samples) -> pd.DataFrame:
    frame = pd.DataFrame({"day": day, "split": samples.split, "label": samples.label})
    table = frame.groupby("day").agg(split=("split", "first"), rows=("label", "size"), ctr=("label", "mean"))
    table = table.reindex(range(int(day.min()), int(day.max()) + 1)) if np.ptp(day) < 10_000 else table
    table["rows"] = table["rows"].fillna(0).astype(int)
    table["split"] = [SPLITS[int(split)] if pd.notna(split) else "empty" for split in table["split"]]
    table["ctr"] = table["ctr"].fillna(0.0)
    table = table.reset_index()
    table["day"] = [str(np.datetime64(int(number), "D")) for number in table["day"]]
    return table


def _shares(made: ImpressionSamples) -> dict[str, float]:
    samples, test = made.samples, made.samples.split == TEST
    return {
        "click-through rate": float(samples.label.mean()),
        "impressions with a history": float((samples.history_end > 0).mean()),
        "test impressions of users unknown to training": float(
            (~made.known_users[samples.user[test]]).mean()
        ),
        "test impressions of items unknown to training": float(
            (~made.known_items[samples.item[test]]).mean()
        ),
    }


def _histogram(lengths: np.ndarray) -> dict[str, int]:
    edges = [*_LENGTHS, np.iinfo(np.int64).max]
    counts = np.histogram(lengths, edges)[0]
    names = [
        f"{low}" if high == low + 1 else f"{low}+" if high == edges[-1] else f"{low}-{high - 1}"
        for low, high in pairwise(edges)
    ]
    return dict(zip(names, counts.tolist(), strict=True))

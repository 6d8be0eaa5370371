"""Warnings about probable mistakes in a log: leaks of the label or of the future, shifted clocks, ids that do not match."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from deep_interest.logs.encoded_log import EncodedLog
from deep_interest.logs.feature_columns import ITEM_ID, USER_ID, FeatureColumns
from deep_interest.logs.history_ranges import history_ends
from deep_interest.logs.impressions import days_of
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.samples import SPLITS, TRAIN
from deep_interest.logs.suspicious_behaviors import (
    items_without_features,
    outcomes_of_clicks,
    ratings_with_one_label,
)
from deep_interest.logs.suspicious_times import incomplete_last_day, whole_days_of_impressions
from deep_interest.logs.tables import CanonicalTables

_LEAK_AUC = 0.95  # of a single feature on held-out labels
_QUANTILES = 50
_FEW_HISTORIES = 0.2
_MOSTLY = 0.95
_FIRST_STAMP, _YEAR = 10**8, 366 * 86_400  # seconds
_MOST_ROWS = 1_000_000  # of each table, the first ones
_SHIFTED = 0.5  # share of clicks that are also behaviours, shifted by whole hours
_COUNTED = 0.9  # rank correlation with a count over the whole period
_HOUR, _DAY = 3600, 24  # seconds, hours
_EPOCH, _EARLIEST, _LATEST = 1970, 1990, 2100  # years


def suspicions(
    tables: CanonicalTables, log: EncodedLog, protocol: ProtocolParameters, features: FeatureColumns
) -> Iterator[str]:
    """Yield one sentence per warning; without impressions only about ratings and items that are not in the item table.

    Leaks of the label or of the future are: a single feature that predicts held-out labels (AUC above 0.95) or the label of
    the user's next impression; an item or user feature that is a count over later days; a time after the impression.
    """
    yield from items_without_features(tables, features)
    yield from ratings_with_one_label(tables.behaviors, protocol)
    if tables.impressions is None:
        return
    yield from outcomes_of_clicks(tables, features)
    shown = tables.shown
    yield from _about_ids(tables, log)
    if protocol.name == "by_day":
        yield from _about_days(shown)
        yield from incomplete_last_day(shown, protocol)
    if log.given_segment is None:
        yield from whole_days_of_impressions(tables, ticks_per_second(shown["time"]))
        yield from _about_times(tables)
        yield from _about_clocks(tables)
    event = ["user", "item", "time", *(["request"] if "request" in shown else [])]
    labels = shown[shown.duplicated(event, keep=False)].groupby(event)["label"].nunique()
    if (labels > 1).any():
        yield f"{int((labels > 1).sum()):,} impressions occur twice, clicked and not clicked"
    some = shown.head(_MOST_ROWS)
    following = np.full(len(some), np.nan)
    if protocol.name != "given" or "day" in shown:  # the rows have times
        following = some.groupby("user")["label"].shift(-1).to_numpy()
    for name, column in _features(tables, some, features):
        yield from _about_leaks(name, column, some, following)
    yield from _about_counts(tables, protocol, features)


def _about_ids(tables: CanonicalTables, log: EncodedLog) -> Iterator[str]:
    shown = tables.shown
    if log.given_segment is None:
        ends = history_ends(log, log.users.encode(shown["user"]), shown["time"].to_numpy())
    else:
        ends = shown["history_end"].to_numpy()
    with_history = float((ends > 0).mean())
    if with_history < _FEW_HISTORIES:
        question = "do both tables use the same user ids, do the times have the right unit, do the behaviours start before the impressions?"
        if log.given_segment is not None:
            question = "is source.impressions.history the right column, and does it have the right separator?"
        yield f"only {with_history:.1%} of the impressions have an earlier behaviour: {question}"
    labels = shown["label"].unique()
    if len(labels) == 1:
        yield f"every label is {labels[0]}: is it the right column?"


def _about_days(shown: pd.DataFrame) -> Iterator[str]:
    if "day" not in shown:
        return
    days = np.unique(shown["day"])
    missing = (
        sorted(set(range(int(days[0]), int(days[-1]) + 1)) - set(days.tolist()))
        if days[-1] - days[0] < 10_000
        else []
    )
    if missing:
        named = ", ".join(str(np.datetime64(day, "D")) for day in missing[:5])
        yield f"{len(missing)} days between the first and the last have no impressions: {named}{' …' if len(missing) > 5 else ''}"


def _about_times(tables: CanonicalTables) -> Iterator[str]:
    """Warn about times in implausible years."""
    second = ticks_per_second(pd.concat([tables.behaviors["time"], tables.shown["time"]]))
    years = {
        name: [_EPOCH + float(time) / (second * _YEAR) for time in (column.min(), column.max())]
        for name, column in (
            ("behaviors", tables.behaviors["time"]),
            ("impressions", tables.shown["time"]),
        )
    }
    since_1970 = (
        max(last for _, last in years.values()) >= _EARLIEST
    )  # otherwise times count from another day
    for name, (first, last) in years.items():
        if since_1970 and (first < _EARLIEST or last > _LATEST):
            yield (
                f"{name} are between the years {first:.0f} and {last:.0f}: do their times have the right unit and format? (Numbers "
                "are seconds unless declared otherwise.)"
            )


def _about_clocks(tables: CanonicalTables) -> Iterator[str]:
    """Warn about clicks that are also behaviours, but at another time."""
    second = ticks_per_second(tables.shown["time"])
    shown = tables.shown[["user", "item", "time", "label"]].head(_MOST_ROWS)
    done = tables.behaviors[["user", "item", "time"]]
    clicks = shown[shown["label"] == 1]
    pairs = clicks.merge(done, on=["user", "item"], suffixes=("", "_done"))
    hours = (pairs["time_done"] - pairs["time"]) / (second * _HOUR)
    if zone := _whole_hours_off(hours, clicks):
        yield zone
        return
    latest = pd.merge_asof(
        shown.sort_values("time"), done.assign(time_done=done["time"]).sort_values("time"), on="time", by=["user", "item"],
        allow_exact_matches=False,
    )  # fmt: skip
    near = latest["time"] - latest["time_done"] <= _DAY * _HOUR * second
    clicked, passed = (near[latest["label"] == label].mean() for label in (1, 0))
    if clicked >= _SHIFTED and passed < _SHIFTED * clicked:
        yield (
            f"{clicked:.1%} of the clicked impressions, but only {passed:.1%} of the others, have a behaviour with the same item within "
            "the day before: is a click part of its own history, because the clocks of the tables differ?"
        )


def _whole_hours_off(hours: pd.Series, clicks: pd.DataFrame) -> str | None:
    near = hours[hours.abs() <= 14]
    whole = near[(near - near.round()).abs() * 60 <= 1].round()
    if len(whole) < 10:
        return None
    hour, count = next(whole.value_counts().items())
    if hour == 0 or count < _SHIFTED * len(clicks):
        return None
    return (
        f"{count:,} of {len(clicks):,} clicks are also behaviours {abs(hour):.0f} h {'later' if hour > 0 else 'earlier'}: do both "
        "tables have the declared time zone?"
    )


def _features(
    tables: CanonicalTables, shown: pd.DataFrame, features: FeatureColumns
) -> Iterator[tuple[str, pd.Series]]:
    """Yield every feature as a column with one row per impression."""
    for name in features.context:
        yield f"impressions.{name}", shown[name]
    for table, key, names in (("items", "item", features.item), ("users", "user", features.profile)):
        own = [name for name in names if name not in (ITEM_ID, USER_ID)]
        if own:
            entities = getattr(tables, table).set_index(key)
            for name in own:
                yield f"{table}.{name}", entities[name].reindex(shown[key])


def _about_leaks(name: str, column: pd.Series, shown: pd.DataFrame, following: np.ndarray) -> Iterator[str]:
    groups, numbers = _groups_and_numbers(column)
    auc = _held_out_auc(groups, shown["label"].to_numpy())
    if auc > _LEAK_AUC:
        yield f"{name} alone predicts the label (AUC {auc:.3f}): is it known before the click?"
    has_next = ~np.isnan(following)
    if name.startswith("impressions.") and has_next.sum() > _QUANTILES:
        auc = _held_out_auc(groups[has_next], following[has_next])
        if auc > _LEAK_AUC:
            yield f"{name} alone predicts whether the user's next impression is clicked (AUC {auc:.3f}): it uses the future"
    ticks = ticks_per_second(shown["time"])
    time = shown["time"].to_numpy() / ticks
    if numbers is None or time.min() < _FIRST_STAMP:
        return
    for unit in (1, 1_000, 1_000_000):
        like_times = np.abs(numbers / unit - time) < _YEAR
        later = (numbers / unit > time) & like_times
        if like_times.mean() > 0.5 and later.mean() > 0.01:
            yield f"{name} looks like a time, and {later.mean():.1%} of its values are after the impression: it uses the future"


def _about_counts(
    tables: CanonicalTables, protocol: ProtocolParameters, features: FeatureColumns
) -> Iterator[str]:
    """Warn about numeric features that correlate with counts over the whole period more than with counts over training."""
    shown = tables.shown
    if protocol.name == "given":
        early = (shown["split"] == SPLITS[TRAIN]).to_numpy()
    else:
        day = days_of(shown, protocol)
        early = day < np.unique(day)[-(protocol.validation_days + protocol.test_days)]
    before = shown["time"].to_numpy()[early].max()
    for table, key, names in (("items", "item", features.item), ("users", "user", features.profile)):
        own = [name for name in names if name not in (ITEM_ID, USER_ID)]
        statistics = list(_statistics(tables, key, early, before)) if own else []
        for name in own:
            entities = getattr(tables, table)
            numbers = pd.to_numeric(entities[name], errors="coerce")
            if numbers.notna().mean() < 0.5 or numbers.nunique() < 5:
                continue
            for what, all_time, training in statistics:
                known = entities[key].isin(all_time.index[all_time > 0]).to_numpy()
                whole, past = (
                    _rank_correlation(numbers[known], entities[key][known].map(count))
                    for count in (all_time, training)
                )
                if abs(whole) > _COUNTED and abs(whole) > abs(past) + 0.02:
                    yield (
                        f"{table}.{name} follows {what} of the whole period (rank correlation {whole:.2f}; {past:.2f} for the training "
                        "days alone): it uses the future"
                    )
                    break


def _statistics(
    tables: CanonicalTables, key: str, early: np.ndarray, before: int
) -> Iterator[tuple[str, pd.Series, pd.Series]]:
    shown, done = tables.shown, tables.behaviors
    yield "the clicks", shown.groupby(key)["label"].sum(), shown[early].groupby(key)["label"].sum()
    yield "the impressions", shown.groupby(key).size(), shown[early].groupby(key).size()
    yield (
        "the click-through rate",
        shown.groupby(key)["label"].mean(),
        shown[early].groupby(key)["label"].mean(),
    )
    if "segment" not in done:  # otherwise their times are positions
        yield "the behaviours", done.groupby(key).size(), done[done["time"] <= before].groupby(key).size()


def _rank_correlation(one: pd.Series, other: pd.Series) -> float:
    ranks = (
        pd.DataFrame({"one": one.to_numpy(float), "other": other.fillna(0).to_numpy(float)}).dropna().rank()
    )
    varied = len(ranks) > 10 and ranks.nunique().min() > 1
    return float(np.corrcoef(ranks["one"], ranks["other"])[0, 1]) if varied else 0.0


def _groups_and_numbers(column: pd.Series) -> tuple[np.ndarray, np.ndarray | None]:
    """Return codes ``(n,)`` of a column's values, with quantiles for many numbers, and the numbers ``(n,)`` if there are any.

    Numeric strings count as numbers, ISO times as seconds since 1970. A missing value has its own code.
    """
    codes, values = pd.factorize(column)
    numbers = _as_numbers(pd.Series(values))
    if numbers is None or not len(values):
        return codes + 1, None
    of_rows = np.append(numbers, np.nan)[codes]
    if len(values) > _QUANTILES:
        borders = np.unique(np.nanquantile(of_rows, np.arange(1, _QUANTILES) / _QUANTILES))
        codes = np.where(np.isnan(of_rows), -1, np.searchsorted(borders, of_rows, side="right"))
    return codes + 1, of_rows


def _as_numbers(values: pd.Series) -> np.ndarray | None:
    """Convert distinct values to numbers; None if most of them are not numeric."""
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    if numbers.notna().mean() < _MOSTLY:
        if not values.astype(str).head(1).str.match(r"\d{4}-\d\d-\d\d").all():
            return None
        stamps = pd.to_datetime(values.astype(str), errors="coerce", utc=True, format="ISO8601")
        numbers = (stamps - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    return numbers.to_numpy() if numbers.notna().mean() >= _MOSTLY else None


def _held_out_auc(groups: np.ndarray, labels: np.ndarray) -> float:
    """Return the AUC on every second row of the label rates by group on the other rows; 0.5 if there is only one label."""
    held_out = np.arange(len(labels)) % 2 == 1
    total = np.bincount(groups[~held_out], minlength=groups.max() + 1)
    clicked = np.bincount(groups[~held_out], labels[~held_out], minlength=len(total))
    rate = (clicked + labels.mean()) / (total + 1)
    scores, truth = rate[groups[held_out]], labels[held_out] > 0
    positives = int(truth.sum())
    if not 0 < positives < len(truth):
        return 0.5
    ranks = pd.Series(scores).rank().to_numpy()
    return float(
        (ranks[truth].sum() - positives * (positives + 1) / 2) / (positives * (len(truth) - positives))
    )


def ticks_per_second(time: pd.Series) -> int:
    """Return the unit of times since 1970, inferred from their size: seconds, milliseconds or microseconds."""
    latest = int(time.max())
    return 1 if latest < 10**11 else 1_000 if latest < 10**14 else 1_000_000

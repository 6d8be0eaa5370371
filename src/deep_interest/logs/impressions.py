"""The protocols of impressions: every impression is a sample, split ``by_day`` (DIN §6.2, the Alibaba dataset) or as ``given``."""

from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.coverage import Uncovered, uncovered_values
from deep_interest.logs.encoded_log import EncodedLog
from deep_interest.logs.encoding import CodedColumn, code_column
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.hashing import Purpose, hash63
from deep_interest.logs.history_ranges import history_begins, history_ends
from deep_interest.logs.negatives import list_negatives
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.samples import SPLITS, TEST, TRAIN, VALIDATION, Samples, known_to_training
from deep_interest.logs.tables import ARRIVED, LOGGED_SLOT, TRUE_PROBABILITY
from deep_interest.logs.vocabulary import FieldVocabularies


@dataclass(frozen=True)
class ImpressionSamples:
    """Samples of impressions, and the items and users that training knows.

    Attributes:
        samples: samples; context codes and the true probability, if known, are in ``columns``.
        columns: ``{name: (n,)}`` further columns of the samples table.
        context: encoded context features.
        known_items, known_users: bool by code, see `known_to_training`.
        day: ``(n,)`` day of each sample; None if the split is given.
        uncovered: context values of held-out days that do not occur on any training day.
    """

    samples: Samples
    columns: dict[str, np.ndarray]
    context: dict[str, CodedColumn]
    known_items: np.ndarray
    known_users: np.ndarray
    day: np.ndarray | None
    uncovered: tuple[Uncovered, ...] = ()


def impression_samples(
    impressions: pd.DataFrame,
    log: EncodedLog,
    protocol: ProtocolParameters,
    *,
    features: FeatureColumns,
    vocabularies: FieldVocabularies | None = None,
) -> ImpressionSamples:
    """Split impressions by day or as given; each history ends strictly before the time of the impression, or is the given one.

    Args:
        impressions: impressions, sorted by user and time.
        log: encoded behaviours.
        protocol: protocol with its days.
        features: feature columns; the vocabularies of context features are those of the training days.
        vocabularies: earlier vocabularies, which are extended; new ones if None.

    Raises:
        InputError: a column is missing, a label is not 0 or 1, or there are too few days.
    """
    if protocol.name not in ("by_day", "given"):
        raise InputError(
            f"protocol.name: a dataset with impressions is split by_day or as given, found {protocol.name}; set by_day, or remove the "
            "impressions from the source"
        )
    _check(impressions, features.columns_of_impressions)
    impressions, day, split, left_out = _used(impressions, protocol)
    user, item = log.users.encode(impressions["user"]), log.items.encode(impressions["item"])
    time = impressions["time"].to_numpy(np.int64)
    if log.given_segment is None:
        segment, end = None, history_ends(log, user, time)
    else:
        segment, end = (impressions[name].to_numpy(np.int32) for name in ("segment", "history_end"))
    label = impressions["label"].to_numpy(np.int8)
    samples = Samples(user, item, label, time, end, split, left_out, segment)
    if protocol.history_days is not None and day is not None:
        dated = protocol.calendar.with_days(log)
        samples.history_begin = history_begins(dated, user, day, protocol.history_days)
    train = split == TRAIN
    vocabularies = FieldVocabularies() if vocabularies is None else vocabularies
    context = {
        name: code_column(vocabularies, name, impressions[name], features, train) for name in features.context
    }
    columns = {name: column.codes for name, column in context.items()} | _given_columns(
        impressions, by_content=protocol.hashed
    )
    if TRUE_PROBABILITY in impressions:
        columns[TRUE_PROBABILITY] = impressions[TRUE_PROBABILITY].to_numpy(np.float32)
    if features.position is not None:
        columns[LOGGED_SLOT] = logged_slots(impressions[features.position], train)
    known_items, known_users = known_to_training(log, samples)
    uncovered = tuple(uncovered_values(impressions, context, split))
    return ImpressionSamples(samples, columns, context, known_items, known_users, day, uncovered)


def logged_slots(column: pd.Series, train: np.ndarray) -> np.ndarray:
    """Return the slot of each impression, ``(n,)`` int32; 0 for a held-out impression without a valid slot.

    Args:
        column: slots, from 1.
        train: ``(n,)`` bool, training impressions.

    Raises:
        InputError: the slot of a training impression is missing, or not a whole number of at least 1.
    """
    slots = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    is_valid = (slots >= 1) & (slots == np.floor(slots)) & (slots <= np.iinfo(np.int32).max)
    if (invalid := train & ~is_valid).any():
        raise InputError(
            f"features.position: {column.name}: {int(invalid.sum()):,} of {int(train.sum()):,} training impressions have no valid slot, the "
            f"first is {column[invalid].iloc[0]!r}; expected whole numbers from 1, the first slot"
        )
    return np.where(is_valid, slots, 0).astype(np.int32)


def _check(impressions: pd.DataFrame, columns: tuple[str, ...]) -> None:
    missing = [name for name in ("label", *columns) if name not in impressions]
    if missing:
        raise InputError(
            f"impressions: column(s) {', '.join(missing)} not found; the table has {', '.join(map(str, impressions))}"
        )
    invalid = ~impressions["label"].isin([0, 1])
    if invalid.any():
        first = impressions["label"][invalid].iloc[0]
        raise InputError(
            f"impressions.label: {int(invalid.sum())} values are not 0 or 1, the first is {first}"
        )


def days_of(impressions: pd.DataFrame, protocol: ProtocolParameters) -> np.ndarray:
    """Return the day of each impression, ``(n,)``: from the source if it has days, otherwise computed from the time."""
    if "day" in impressions:
        return impressions["day"].to_numpy(np.int64)
    return protocol.calendar.days(impressions["time"].to_numpy(np.int64))


def days_and_splits(
    impressions: pd.DataFrame, protocol: ProtocolParameters
) -> tuple[pd.DataFrame, np.ndarray | None, np.ndarray]:
    """Return the impressions in use, and the day (None for the protocol ``given``) and the split of each.

    Days and splits are ``(n,)``, splits as indices into SPLITS.

    Raises:
        InputError: there are too few days.
    """
    impressions, day, split, _ = _used(impressions, protocol)
    return impressions, day, split


def _used(
    impressions: pd.DataFrame, protocol: ProtocolParameters
) -> tuple[pd.DataFrame, np.ndarray | None, np.ndarray, dict[str, int]]:
    """Return the impressions in use, their days and splits, and the number of other impressions by reason."""
    if protocol.name == "given":
        day, left_out = None, dict[str, int]()
        split = impressions["split"].map(SPLITS.index).to_numpy(np.int8)
    else:
        impressions, day, left_out = _days_in_use(impressions, protocol)
        split = _split_by_day(day, protocol)
    if protocol.list_negatives is None:
        return impressions, day, split, left_out
    requests = requests_of(impressions, by_content=protocol.hashed)
    kept = list_negatives(
        requests, impressions["label"].to_numpy(), split == TRAIN, protocol.list_negatives,
        draws=_list_hashes(impressions, requests, protocol.seed) if protocol.hashed else np.random.default_rng([protocol.seed, 3]),
    )  # fmt: skip
    reason = f"training impressions that are not among the negatives of a click (protocol.list_negatives: {protocol.list_negatives})"
    left_out |= {reason: int((~kept).sum())}
    impressions = impressions[kept].reset_index(drop=True)
    return impressions, None if day is None else day[kept], split[kept], left_out


def _list_hashes(impressions: pd.DataFrame, requests: np.ndarray, seed: int) -> np.ndarray:
    item = pd.factorize(impressions["item"], sort=True)[0]
    label, time = (impressions[name].to_numpy() for name in ("label", "time"))
    return list_hashes(item, label, time, requests, seed)


def list_hashes(
    item: np.ndarray, label: np.ndarray, time: np.ndarray, requests: np.ndarray, seed: int
) -> np.ndarray:
    """Return a hash of each impression: of its request, and of its position by time, item and label in the request.

    Args:
        item: ``(n,)`` codes or ranks of the items, in the order of their ids.
        label, time: ``(n,)`` labels and times.
        requests: ``(n,)`` request of each impression, numbered by user and id.
        seed: seed of the hash.

    Returns:
        ``(n,)`` int64.
    """
    order = np.lexsort((label, item, time, requests))
    of_list = requests[order]
    hashes = np.empty(len(order), np.int64)
    position = np.arange(len(order)) - np.searchsorted(of_list, of_list)
    hashes[order] = hash63(seed, Purpose.LIST_NEGATIVE, of_list, position)
    return hashes


def _given_columns(impressions: pd.DataFrame, *, by_content: bool) -> dict[str, np.ndarray]:
    """Return the request and the weight of each sample, where the source gives them, and the share of its clicks that is known."""
    columns: dict[str, np.ndarray] = {}
    if "request" in impressions:
        columns["request"] = requests_of(impressions, by_content=by_content)
    if "weight" in impressions:
        columns["weight"] = impressions["weight"].to_numpy(np.float32)
    if ARRIVED in impressions:
        columns[ARRIVED] = impressions[ARRIVED].to_numpy(np.float32)
    return columns


def requests_of(impressions: pd.DataFrame, *, by_content: bool = False) -> np.ndarray:
    """Return a code of each row's request, ``(n,)`` int32: rows of a user with the same request were shown together.

    Args:
        impressions: impressions.
        by_content: whether requests are numbered in the order of their users and ids, instead of the order of the rows.

    Raises:
        InputError: the impressions have no requests.
    """
    if "request" not in impressions:
        raise InputError(
            "protocol.list_negatives needs requests, but source.impressions gives none; set request to the column of their ids, or "
            "sequence to the column of lists"
        )
    return impressions.groupby(["user", "request"], sort=by_content).ngroup().to_numpy(np.int32)


def _days_in_use(
    impressions: pd.DataFrame, protocol: ProtocolParameters
) -> tuple[pd.DataFrame, np.ndarray, dict[str, int]]:
    """Return the impressions of the days in use, their days, and the number of other impressions by reason."""
    day = days_of(impressions, protocol)
    used = np.ones(len(day), bool)
    left_out = {}
    if protocol.last_day is not None:
        used = day <= (protocol.last_day - date(1970, 1, 1)).days
        left_out[f"impressions after protocol.last_day ({protocol.last_day})"] = int((~used).sum())
    if protocol.train_days is not None:
        days = np.unique(day[used])
        wanted = protocol.train_days + protocol.validation_days + protocol.test_days
        early = used & (day < days[-wanted:].min(initial=np.iinfo(np.int64).max))
        left_out[f"impressions before the training days (protocol.train_days: {protocol.train_days})"] = int(
            early.sum()
        )
        used &= ~early
    if not used.all():
        impressions, day = impressions[used].reset_index(drop=True), day[used]
    return impressions, day, {reason: rows for reason, rows in left_out.items() if rows}


def _split_by_day(day: np.ndarray, protocol: ProtocolParameters) -> np.ndarray:
    """Return the split of each impression, ``(n,)``: the last days are the test set, the days before them the validation set."""
    days = np.unique(day)
    held_out = protocol.validation_days + protocol.test_days
    if len(days) <= held_out:
        raise InputError(
            f"impressions.time: found {len(days)} distinct days, but {protocol.validation_days} validation and {protocol.test_days} "
            "test days need at least one training day before them; provide more days, or check the unit of the times"
        )
    first_validation, first_test = days[-held_out], days[-protocol.test_days]
    split = np.where(day >= first_test, TEST, np.where(day >= first_validation, VALIDATION, TRAIN)).astype(
        np.int8
    )
    assert len(np.unique(split)) == len(SPLITS) - (protocol.validation_days == 0)
    return split

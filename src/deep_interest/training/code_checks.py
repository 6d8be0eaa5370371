"""Bounds checks of the codes of log, features and samples, on the host when they are built.

A CPU batch is checked again at each lookup; on a GPU this is the only check, to avoid synchronisation.
"""

from collections.abc import Mapping

import numpy as np

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.ops.bounds import check_codes, check_offsets


def check_log(log: BehaviorLog, features: FeatureTables) -> None:
    """Check the log and the feature codes against the schema's tables and the multi-hot fields' value sets.

    Raises:
        InputError: a code or an offset is out of range; names the group, the field, the code and the table's size.
    """
    schema, value_sets = features.schema, features.value_sets
    groups = (
        ("behavior", schema.behavior, log.fields),
        ("item", schema.item, features.items),
        ("profile", schema.profile, features.users),
    )
    for group, fields, columns in groups:
        for field in (field for field in fields if not field.derived):
            _check(
                columns[field.name],
                _size(field, {name: len(of.offsets) - 1 for name, of in value_sets.items()}),
                group,
                field,
            )
    for name, of in value_sets.items():
        check_offsets(np.ascontiguousarray(of.offsets), len(of.values), f"{name}, value sets")
        check_codes(np.ascontiguousarray(of.values), schema.tables[name], name)
    for name, codes in log.fields.items():
        check_offsets(np.ascontiguousarray(log.offsets), len(codes), f"offsets of the log, field {name}")


def check_samples(
    schema: FeatureSchema,
    columns: Mapping[str, np.ndarray],
    *,
    offsets: np.ndarray,
    items: int,
    users: int | None,
    value_sets: Mapping[str, int],
) -> None:
    """Check the columns of samples.

    Args:
        schema: feature groups.
        columns: ``user``, ``item``, ``history_end``, the context fields and, if histories are given, ``segment``, ``(n,)`` each.
        offsets: ``(S + 1,)`` segments of the behaviours in the log: one for each user, or for each given history.
        items, users: rows of the feature codes by item and by user; None without features of users.
        value_sets: number of value sets of each multi-hot field.

    Raises:
        InputError: a code or the end of a history is out of range.
    """
    owner = "segment" if "segment" in columns else "user"
    segment, end = columns[owner], columns["history_end"]
    if users is not None:
        check_codes(np.ascontiguousarray(columns["user"]), users, "samples.user")
    check_codes(np.ascontiguousarray(segment), len(offsets) - 1, f"samples.{owner}")
    check_codes(np.ascontiguousarray(columns["item"]), items, "samples.item")
    invalid = np.flatnonzero((end < 0) | (end > np.diff(offsets)[segment]))
    if len(invalid):
        row = invalid[0]
        raise InputError(
            f"samples.history_end: sample {row} has {end[row]} behaviours before it, but {owner} {segment[row]} has "
            f"{np.diff(offsets)[segment[row]]} in the log; build the samples and the log from the same data"
        )
    for field in schema.context:
        _check(columns[field.name], _size(field, value_sets), "context", field)


def _size(field: Field, value_sets: Mapping[str, int]) -> int:
    """Return the number of codes of a one-hot field, or of value sets of a multi-hot field."""
    return field.codes if field.pooling is None else value_sets[field.name]


def _check(codes: np.ndarray, size: int, group: str, field: Field) -> None:
    check_codes(np.ascontiguousarray(codes), size, f"{group} field {field.name}")

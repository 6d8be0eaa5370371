"""The canonical tables, into which every source is converted.

- ``behaviors``: one user action per row, with ``user``, ``item``, ``time``, optionally ``day`` and ``rating``.
- ``items``: one item per row, with ``item``, ``category``, optionally ``shop`` and further item features.
- ``users`` (optional): one user per row, with ``user`` and profile features.
- ``impressions`` (optional): one shown item per row, with ``user``, ``item``, ``time``, ``label``, optionally ``day`` and
  context features.

A source that gives its samples has more columns. ``impressions`` may have ``request`` (impressions of a user with the same request
were shown together), ``split``, ``weight``, and the history of each row as ``segment`` and ``history_end``: the first
``history_end`` behaviours of a segment; segment 0 has none. ``behaviors`` then has ``segment`` as well, and ``time`` is the
position within the segment.

A source that says when clicks happened has ``click_time`` in ``impressions``: int64 in the unit of ``time``, at or after it, and `NEVER`
without a click. At time t, the label of an impression is ``click_time < t``.

``user`` and ``item`` are the source's own ids (integers or strings), ``time`` is int64 in the source's unit (seconds or
milliseconds since 1970, UTC), ``day`` counts local days since 1970-01-01 if the source has days, ``label`` is int8 in {0, 1}.
"""

from dataclasses import dataclass, field

import pandas as pd

TRUE_PROBABILITY = "true_probability"  # of an impression, known in simulated logs
LOGGED_SLOT = (
    "logged_slot"  # of a sample: slot in which its impression was shown, from 1; 0 if it is not known
)
CLICK_TIME = "click_time"  # of an impression; NEVER without a click
NEVER = 2**63 - 1
ARRIVED = "arrived"  # of an impression in training: probability that a click on it is known by now


@dataclass(frozen=True)
class CanonicalTables:
    """Result of a source reader.

    Attributes:
        behaviors: one user action per row, in the order of the source.
        items: one item per row, including all items of ``behaviors`` and ``impressions``.
        users: profile features, or None if the source has none.
        impressions: shown items with their labels, or None if the source has none.
        left_out: dropped rows of the raw files, as ``{reason: rows}``.
        notes: remarkable rows of the tables, as ``{remark: rows}``.
    """

    behaviors: pd.DataFrame
    items: pd.DataFrame
    users: pd.DataFrame | None = None
    impressions: pd.DataFrame | None = None
    left_out: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)

    @property
    def shown(self) -> pd.DataFrame:
        """``impressions`` of a source that has them."""
        assert self.impressions is not None
        return self.impressions

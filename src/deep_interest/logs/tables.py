"""The canonical tables: what every source delivers and everything above the sources reads.

====================  ==========================================================================
table                 columns
====================  ==========================================================================
``behaviors``         ``user``, ``item``, ``time`` [, ``day``] [, ``rating``]: one user action a row
``items``             ``item``, ``category`` [, ``shop``, further item features]: one item a row
``users``             ``user``, profile features: one user a row (optional)
``impressions``       ``user``, ``item``, ``time``, ``label`` [, ``day``] [, context features]: one shown item a row (optional)
====================  ==========================================================================

``user`` and ``item`` are the source's own ids (integers or strings), ``time`` is int64 in the source's unit
(seconds or milliseconds since 1970, UTC), ``day`` counts local days since 1970-01-01 where the source knows them,
``label`` is int8 in {0, 1}.
"""

from dataclasses import dataclass, field

import pandas as pd

TRUE_PROBABILITY = "true_probability"  # an impression's, where a simulator knows it


@dataclass(frozen=True)
class CanonicalTables:
    """What a source reader returns.

    Attributes:
        behaviors: one user action a row, in the source's order.
        items: one item a row; every item of ``behaviors`` and ``impressions`` is in it.
        users: profile features, or None where the source has none.
        impressions: shown items with their labels, or None where the source has none.
        left_out: rows of the raw files that are not in the tables, as ``{reason: rows}``.
        notes: rows that are in the tables and worth a word, as ``{fact: rows}``.
    """

    behaviors: pd.DataFrame
    items: pd.DataFrame
    users: pd.DataFrame | None = None
    impressions: pd.DataFrame | None = None
    left_out: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)

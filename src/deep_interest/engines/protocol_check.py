"""Which protocols fit the tables."""

from typing import TYPE_CHECKING

from deep_interest.errors import InputError
from deep_interest.logs.protocol_parameters import ProtocolParameters

if TYPE_CHECKING:
    import ibis.expr.types as ir


def check_protocol(impressions: "ir.Table | None", protocol: ProtocolParameters) -> None:
    """Check that the protocol fits the tables.

    Raises:
        InputError: the protocol needs impressions or requests that the dataset does not have, or cannot use its impressions.
    """
    needs_impressions = protocol.name in ("by_day", "given")
    if impressions is None and needs_impressions:
        raise InputError(
            f"protocol.name: {protocol.name} needs impressions, but this dataset has none; use one of next_item, last_item, rated, or "
            "declare source.impressions"
        )
    if impressions is not None and not needs_impressions:
        raise InputError(
            f"protocol.name: a dataset with impressions is split by_day or as given, found {protocol.name}; set by_day, or remove the "
            "impressions from the source"
        )
    if (
        impressions is not None
        and protocol.list_negatives is not None
        and "request" not in impressions.columns
    ):
        raise InputError(
            "protocol.list_negatives needs requests, but source.impressions gives none; set request to the column of their ids, or "
            "sequence to the column of lists"
        )

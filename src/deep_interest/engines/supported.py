"""What the data path on engines does not support."""

from typing import TYPE_CHECKING

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters

if TYPE_CHECKING:
    import ibis.expr.types as ir


def check_supported(
    behaviors: "ir.Table",
    impressions: "ir.Table | None",
    protocol: ProtocolParameters,
    features: FeatureColumns,
) -> None:
    """Check that protocol and features are supported on engines.

    Raises:
        InputError: names what is not supported.
    """
    columns = set(behaviors.columns) | set(() if impressions is None else impressions.columns)
    per_row = {*features.own_columns, *features.context}
    unsupported = {
        "protocol given": protocol.name == "given",
        "protocol.list_negatives": protocol.list_negatives is not None,
        "protocol.auxiliary_negatives: shown": protocol.auxiliary_negatives == "shown",
        "source.impressions.history": "segment" in columns,
        "source.impressions.request": "request" in columns,
        "source.impressions.weight": "weight" in columns,
        "features.sequences": bool(features.sequences),
        "features.neighbours": features.neighbours is not None,
        "features.multi_hot of behaviours or impressions": bool(per_row & set(features.multi_hot)),
        "features.standardised of behaviours or impressions": bool(per_row & set(features.standardised)),
    }
    if found := [name for name, is_used in unsupported.items() if is_used]:
        raise InputError(
            f"{', '.join(found)}: not available on DuckDB and Spark; remove it, or make the samples in the default environment"
        )
    if impressions is None and protocol.name == "by_day":
        raise InputError(
            "protocol.name: by_day needs impressions, but this dataset has none; use one of next_item, last_item, rated, or declare "
            "source.impressions"
        )
    if impressions is not None and protocol.name != "by_day":
        raise InputError(
            f"protocol.name: a dataset with impressions is split by_day or as given, found {protocol.name}; set by_day, or remove the "
            "impressions from the source"
        )

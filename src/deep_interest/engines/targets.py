"""Which behaviours can be targets, as an expression."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from deep_interest.engines.engine import Engine
from deep_interest.errors import InputError
from deep_interest.logs.protocol_parameters import ProtocolParameters

if TYPE_CHECKING:
    import ibis.expr.types as ir


def is_target(behaviors: "ir.Table", protocol: ProtocolParameters) -> Any:
    """Return an expression of whether each behaviour can be a target.

    Raises:
        InputError: ``protocol.targets`` names a column that the behaviours do not have.
    """
    import ibis  # noqa: PLC0415

    chosen: Any = ibis.literal(True)
    for column, values in protocol.targets.items():
        if column not in behaviors.columns:
            raise InputError(
                f"protocol.targets: {column} is not a column of the behaviours ({', '.join(behaviors.columns)}); add it to "
                "features.behavior, or remove it here"
            )
        chosen = chosen & is_one_of(behaviors[column], values).fill_null(False)
    return chosen


def check_targets(engine: Engine, protocol: ProtocolParameters) -> None:
    """Check that a stored behaviour can be a target.

    Raises:
        InputError: ``protocol.targets`` selects none.
    """
    behaviors = engine.stored("behaviors")
    if protocol.targets and not engine.collect(behaviors.filter(behaviors["is_target"]).count()).as_py():
        wanted = " and ".join(
            f"{column} {' or '.join(map(str, values))}" for column, values in protocol.targets.items()
        )
        raise InputError(f"protocol.targets: no behaviour has {wanted}; check the values of the column")


def is_one_of(column: Any, values: tuple[bool | int | float | str, ...]) -> Any:
    """Return an expression of whether a value is in a list: compared as numbers in a column of numbers, otherwise as strings."""
    strings = [str(value) for value in values]
    if column.type().is_boolean():
        column = column.cast("int8")
    if column.type().is_numeric():
        numbers = pd.to_numeric(pd.Series(strings), errors="coerce").dropna().tolist()
        return column.cast("float64").isin([float(number) for number in numbers])
    return column.cast("string").isin(strings)

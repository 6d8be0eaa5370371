"""Reduced precision of a trained model, for scoring: of its embedding tables, and of the products in DIN's activation unit."""

from torch import nn

from deep_interest.errors import InputError
from deep_interest.models.attention import LocalActivationUnit
from deep_interest.models.config import Precision
from deep_interest.models.packed_tables import pack_tables, tables_to_pack
from deep_interest.ops.packed_tables import PackedTable


def reduce_precision(model: nn.Module, precision: Precision) -> dict[str, PackedTable]:
    """Let a trained model score in a precision, and return its packed tables by name; nothing changes for float32.

    Raises:
        InputError: as `check_precision`, or a value of a table is too large for the precision.
    """
    set_attention(model, precision)
    return pack_tables(model, precision.tables)


def set_attention(model: nn.Module, precision: Precision) -> None:
    """Let the activation units of a model multiply in a precision.

    Raises:
        InputError: the model has none that can.
    """
    if precision.attention == "float32":
        return
    units = [
        unit for unit in model.modules() if isinstance(unit, LocalActivationUnit) and unit.can_use_bfloat16
    ]
    if not units:
        raise InputError(
            f"retraining.attention: {type(model).__name__} has no activation unit with two hidden layers of PReLU or ReLU, as that of "
            "DIN; set it to float32"
        )
    for unit in units:
        unit.precision = precision.attention


def check_precision(model: nn.Module, precision: Precision) -> None:
    """Check that a model can score in a precision.

    Raises:
        InputError: it has no tables that become smaller, or no activation unit that can use bfloat16.
    """
    set_attention(model, precision)
    tables_to_pack(model, precision.tables)

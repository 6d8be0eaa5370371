"""Embedding tables of a trained model in half precision or int8, for scoring."""

from collections.abc import Mapping

from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.models.embeddings import Table
from deep_interest.models.own_fields import OwnFields
from deep_interest.ops.limits import TablePrecision
from deep_interest.ops.packed_tables import PackedTable, pack_table, packed_bytes


def tables_to_pack(model: nn.Module, precision: TablePrecision) -> dict[str, Table]:
    """Return the tables that become smaller in a precision, by name.

    Tables of dense fields have two rows, and those of `OwnFields` at most 1,024: they stay in float32. So do tables with one column in
    ``int8``, where the scale of a row would need more memory than the row.

    Raises:
        InputError: there is none.
    """
    if precision == "float32":
        return {}
    small = {id(table) for of in model.modules() if isinstance(of, OwnFields) for table in of.scales.values()}
    found = {
        name: table
        for name, table in model.named_modules()
        if isinstance(table, Table)
        and not table.dense
        and id(table) not in small
        and _shrinks(table, precision)
    }
    if not found:
        raise InputError(
            f"retraining.tables: {type(model).__name__} has no embedding tables that become smaller in {precision}; set it to "
            "float32"
        )
    return found


def _shrinks(table: Table, precision: TablePrecision) -> bool:
    width = table.embedding_dim
    return packed_bytes(1, width, precision) < packed_bytes(1, width, "float32")


def pack_tables(model: nn.Module, precision: TablePrecision) -> dict[str, PackedTable]:
    """Round the tables of a trained model to a precision, and return them by name; nothing changes for ``float32``.

    Raises:
        InputError: the model has no tables that become smaller, or a value is too large for the precision.
    """
    packed = {
        name: pack_table(table.weight, precision, name=name)
        for name, table in tables_to_pack(model, precision).items()
    }
    set_tables(model, packed)
    return packed


def set_tables(model: nn.Module, tables: Mapping[str, PackedTable | Tensor]) -> None:
    """Replace the rows of tables by name, for inference."""
    for name, rows in tables.items():
        table = model.get_submodule(name)
        assert isinstance(table, Table)
        table.replace_rows(rows)


def unpack_tables(model: nn.Module) -> None:
    """Replace packed tables by float32 tables of the same values, for code that cannot read packed ones, such as an export."""
    for table in model.modules():
        if isinstance(table, Table) and isinstance(table.content, PackedTable):
            table.replace_rows(table.content.all_rows())


def memory_of_tables(model: nn.Module) -> int:
    """Return the bytes of all embedding tables."""
    return sum(table.content.nbytes for table in model.modules() if isinstance(table, Table))

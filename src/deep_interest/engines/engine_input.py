"""A table that a node reads on an engine instead of as a data frame."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from deep_interest.engines.connections import engine_of
from deep_interest.engines.engine import Engine
from deep_interest.io.atomic import new_workspace

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True)
class EngineInput:
    """A folder of Parquet files as a table of an ibis connection.

    Attributes:
        table: the table.
        file: the folder; stored tables are written next to it.
        rows_per_partition: approximate number of rows of a partition, which has to fit into memory.
    """

    table: "ir.Table"
    file: Path
    rows_per_partition: int

    @property
    def connection(self) -> Any:
        """Return the ibis connection of the table."""
        return self.table.get_backend()

    def engine(self, *others: "EngineInput") -> Engine:
        """Return an engine with a new folder and enough partitions for this table and others."""
        folder = new_workspace(self.file.parent, "engine")
        rows = sum(int(self.connection.to_pyarrow(of.table.count()).as_py()) for of in (self, *others))
        return engine_of(self.connection, folder, max(1, -(-rows // self.rows_per_partition)))

    def to_pandas(self) -> pd.DataFrame:
        """Return the whole table."""
        return self.connection.to_pyarrow(self.table).to_pandas()

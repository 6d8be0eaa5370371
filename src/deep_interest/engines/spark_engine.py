"""Spark: expressions over whole tables, in as many processes and on as many machines as the session has."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa

from deep_interest.engines.engine import PARTITION, Build, Engine

if TYPE_CHECKING:
    import ibis.expr.types as ir


class SparkEngine(Engine):
    """An engine in a Spark session; see `Engine`."""

    def call(self, name: str, function: Callable[..., np.ndarray], *columns: Any) -> Any:
        """Return an expression of a function, which Spark calls with columns of pandas.

        The function is registered in the session: Spark calls Arrow functions of ibis for each row, and views of ibis do not register
        functions.
        """
        import ibis  # noqa: PLC0415
        from pyspark.sql.functions import pandas_udf  # noqa: PLC0415

        def one(a: pd.Series) -> pd.Series:
            return pd.Series(function(a.to_numpy()))

        def two(a: pd.Series, b: pd.Series) -> pd.Series:
            return pd.Series(function(a.to_numpy(), b.to_numpy()))

        def three(a: pd.Series, b: pd.Series, c: pd.Series) -> pd.Series:
            return pd.Series(function(a.to_numpy(), b.to_numpy(), c.to_numpy()))

        of_series: Any = {1: one, 2: two, 3: three}[len(columns)]
        define: Any = pandas_udf  # its types do not know functions of several columns
        self._session.udf.register(name, define(of_series, "long"))
        scalar = ibis.udf.scalar.builtin(of_series, name=name, signature=(("int64",) * len(columns), "int64"))
        return scalar(*(column.cast("int64") for column in columns))

    def table(self, table: pa.Table) -> "ir.Table":
        """Return a table of this process for use in expressions."""
        view = f"deep_interest_{uuid4().hex}"
        self._session.createDataFrame(table).createOrReplaceTempView(view)
        return self.connection.table(view)

    def store(self, name: str, build: Build, inputs: Sequence[str] = ()) -> None:
        """Evaluate the expression for all partitions at once."""
        view = f"deep_interest_{name}"
        self.connection.create_view(view, build(*map(self.stored, inputs)), overwrite=True)
        self._write(self._session.table(view), name)

    def store_mapped(
        self, name: str, function: Callable[[pa.Table], pa.Table], source: str, schema: pa.Schema
    ) -> None:
        """Call the function in Spark's Python workers, once for each partition."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

        def of_partition(key: Any, table: pa.Table) -> pa.Table:
            mapped = function(table.drop_columns([PARTITION])).cast(schema)
            return mapped.append_column(PARTITION, pa.repeat(key[0], len(mapped)))

        spark_schema = from_arrow_schema(schema.append(pa.field(PARTITION, pa.int32())))
        frame = self._session.read.parquet(self._path(source))
        self._write(frame.groupBy(PARTITION).applyInArrow(of_partition, spark_schema), name)

    def stored(self, name: str) -> "ir.Table":
        """Return a stored table."""
        return self.connection.read_parquet(self._path(name))

    @property
    def _session(self) -> Any:
        from pyspark.sql import SparkSession  # noqa: PLC0415

        return SparkSession.active()

    def _path(self, name: str) -> str:
        return str((self.folder / name).absolute())

    def _write(self, frame: Any, name: str) -> None:
        frame.repartition(self.partitions, PARTITION).write.partitionBy(PARTITION).parquet(self._path(name))
